-- InvalidateTags and ExpireTags: count one more of them in a namespace, and record it
-- for tags.
-- KEYS: the namespace's records: 'n' has the number of the last one; 't' and a tag
-- (for an expiry 'x' and a tag) has the number of the tag's last one and its expiry
-- time, in microseconds.
-- ARGV: prefix of the names of pushes, microseconds to keep, 't' or 'x', then each
-- tag twice: as it is, and as part of a push's name.
-- Returns the number.
--
-- The records have no time to live: if they were lost, the entries that they
-- invalidated would be valid again.
local now = clock()
local seq = text(next_fence(now, (read(KEYS[1], 'n'))))
redis.call('HDEL', KEYS[1], 'n')
redis.call('HSET', KEYS[1], 'n', seq)
for i = 4, #ARGV, 2 do
  local field, keep = ARGV[3] .. ARGV[i], now + ARGV[2]
  local old = redis.call('HGET', KEYS[1], field)
  if old then
    keep = math.max(keep, num(string.match(old, '%d+$')))
  end
  redis.call('HSET', KEYS[1], field, seq .. ' ' .. text(keep))
  tell(ARGV[1] .. ARGV[3] .. ':' .. seq .. ':' .. ARGV[i + 1])
end

-- Delete a few random records if they have expired: more than were added, so that the
-- number of expired ones stays bounded.
local some = redis.call('HRANDFIELD', KEYS[1], #ARGV + 2, 'WITHVALUES')
for i = 1, #some, 2 do
  if some[i] ~= 'n' and num(string.match(some[i + 1], '%d+$')) < now then
    redis.call('HDEL', KEYS[1], some[i])
  end
end
return seq
