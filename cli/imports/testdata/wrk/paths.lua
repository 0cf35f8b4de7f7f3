-- Paths of a file in turn, with pauses. Each thread has a number.
local threads = 0
function setup(thread)
   thread:set("id", threads)
   threads = threads + 1
end

local paths, at = {}, 0
function init(args)
   for line in io.lines("part-paths.txt") do
      paths[#paths + 1] = line
   end
end

function request()
   at = at % #paths + 1
   return wrk.format(nil, paths[at], {["X-Thread"] = id})
end

function delay()
   return math.random(10, 50)
end
