// Numbers that C++ and assembly of the agent share: offsets of fields, sizes, kinds of records. recorder.h
// asserts that the structs agree.
#pragma once

#define RTRACE_SLOT_HEAD 8
#define RTRACE_SLOT_RING 16
#define RTRACE_SLOT_CAPACITY 24
#define RTRACE_SLOT_LOST 32
#define RTRACE_SLOT_NAME 40
#define RTRACE_SLOT_TAIL 64

#define RTRACE_OWNER_DIED 0x40000000

#define RTRACE_RECORD_LOST 16
#define RTRACE_KIND_PADDING 1
#define RTRACE_HEAD_WORDS_SHIFT 16
#define RTRACE_RETURN_WORDS 6
#define RTRACE_PLAIN_ENTRY_WORDS 12

#define RTRACE_JOB_SLOT 0
#define RTRACE_JOB_WORDS 8
#define RTRACE_JOB_WORD_COUNT 16
#define RTRACE_JOB_PIECES 24
#define RTRACE_JOB_PIECES_END 32
#define RTRACE_JOB_SIZE 40
#define RTRACE_PIECE_SIZE 24

// Of the wrapper's frame, from rbp downwards.
#define RTRACE_FRAME_SIZE 192
#define RTRACE_FRAME_ARGUMENTS 48
#define RTRACE_FRAME_RAX 96
#define RTRACE_FRAME_SAVED 104
#define RTRACE_FRAME_R10 152
#define RTRACE_FRAME_R11 160
#define RTRACE_FRAME_KEPT 176
#define RTRACE_FRAME_RESULT 40
#define RTRACE_VECTORS_SIZE 128
