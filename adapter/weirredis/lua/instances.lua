-- Instances: who is known.
-- KEYS: the roster, see Announce. ARGV: how many at most.
-- Returns for each when it was seen, and what it said. Those whose time is over
-- go.
local now = clock()
local known = {}
-- Of no more fields than there are, all: HGETALL would be one more right.
local all = redis.call('HRANDFIELD', KEYS[1], ARGV[1], 'WITHVALUES')
for i = 1, #all, 2 do
  local ends, seen, said = string.match(all[i + 1], '^(%d+) (%d+) (.*)$')
  if tonumber(ends) <= now then
    redis.call('HDEL', KEYS[1], all[i])
  else
    known[#known + 1] = seen
    known[#known + 1] = said
  end
end
return known
