-- Instances: returns the known instances, and deletes expired ones.
-- KEYS: the roster, see Announce. ARGV: the maximum number.
-- Returns for each when it was seen, and its data.
local now = clock()
local known = {}
-- Returns all fields if there are no more than that; HGETALL would need another ACL
-- right.
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
