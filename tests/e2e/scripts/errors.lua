-- errors.lua COUNT: errors under table.sort, errors of the library itself, and coroutines, which yield by longjmp.
io.stdout:setvbuf("no")
print("pid " .. io.open("/proc/self/stat"):read("n"))
io.read()
local count = tonumber(arg[1])
local caught, refused, resumes, yields = 0, 0, 0, 0
for i = 1, count do
  local fine, problem = pcall(function()
    table.sort({3, 1, 2}, function() error({i}) end)
  end)
  if not fine and problem[1] == i then caught = caught + 1 end
  fine, problem = pcall(string.rep)
  if not fine and problem:find("bad argument") then refused = refused + 1 end
end
local threads = {}
for _ = 1, 7 do
  threads[#threads + 1] = coroutine.create(function()
    for _ = 1, count // 10 do
      yields = yields + 1
      coroutine.yield()
    end
    return "done"
  end)
end
local order = 1
while #threads > 0 do
  order = (order * 1103515245 + 12345) & 0xffffffff
  local at = (order >> 16) % #threads + 1
  resumes = resumes + 1
  local fine, value = coroutine.resume(threads[at])
  if not fine then os.exit(1) end
  if value == "done" then table.remove(threads, at) end
end
print("caught " .. caught .. " refused " .. refused)
print(("lua_error %d 0\nluaL_error %d 0\nluaL_argerror %d 0"):format(2 * count, count, count))
print(("lua_pcallk %d %d\nlua_resume %d %d\nlua_yieldk %d 0"):format(2 * count, 2 * count, resumes, resumes, yields))
os.exit(0)
