// The parts of a wrapper's stub (stub.S): each lasts until the next; fields lie in the part that they are
// named after.
#pragma once

extern "C" {
extern const unsigned char rtrace_stub_frame[], rtrace_stub_save[], rtrace_stub_save_vectors[],
    rtrace_stub_enter[], rtrace_stub_quick_enter[], rtrace_stub_pass[], rtrace_stub_restore[],
    rtrace_stub_borrow[], rtrace_stub_resume[], rtrace_stub_spread[], rtrace_stub_lend[],
    rtrace_stub_seem_called[], rtrace_stub_seem_called_whole[], rtrace_stub_resume_called[],
    rtrace_stub_keep_words[], rtrace_stub_keep_frame[], rtrace_stub_call[], rtrace_stub_returned[],
    rtrace_stub_save_vector_results[], rtrace_stub_leave[], rtrace_stub_quick_leave[], rtrace_stub_unframe[],
    rtrace_stub_ret[], rtrace_stub_launch[], rtrace_stub_foretell[], rtrace_stub_foretell_jump[],
    rtrace_stub_jump[], rtrace_stub_end[];
extern const unsigned char rtrace_stub_enter_function[], rtrace_stub_enter_passed[],
    rtrace_stub_enter_address[], rtrace_stub_borrow_below[], rtrace_stub_borrow_distance[],
    rtrace_stub_resume_store[], rtrace_stub_resume_above[], rtrace_stub_lend_lea[],
    rtrace_stub_lend_distance[], rtrace_stub_lend_store[], rtrace_stub_seem_called_low[],
    rtrace_stub_seem_called_high[], rtrace_stub_resume_called_load[], rtrace_stub_resume_called_place[],
    rtrace_stub_launch_gadget[], rtrace_stub_foretell_function[], rtrace_stub_foretell_second[],
    rtrace_stub_foretell_first[], rtrace_stub_foretell_call[], rtrace_stub_call_distance[],
    rtrace_stub_leave_function[], rtrace_stub_leave_address[], rtrace_stub_jump_distance[],
    rtrace_stub_quick_enter_plan[], rtrace_stub_quick_enter_address[], rtrace_stub_quick_leave_plan[],
    rtrace_stub_quick_leave_address[];
}
