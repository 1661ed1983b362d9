-- InvalidateTags and ExpireTags: one more of them in a namespace, noted for tags.
-- KEYS: the namespace's notes: 'n' the number of the last one, 't' and a tag
-- (for an expiry 'x') the number of its last one and until when it is kept, in
-- microseconds.
-- ARGV: start of the names of pushes, microseconds to keep, 't' or 'x', then for
-- each tag it, and it as a part of a push's name.
-- Returns the number.
--
-- The notes have no time to live: were they gone, what they invalidated would
-- count again.
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

-- A few notes at random go if their time is over: more than came, so that the
-- number of those that are over does not grow.
local some = redis.call('HRANDFIELD', KEYS[1], #ARGV + 2, 'WITHVALUES')
for i = 1, #some, 2 do
  if some[i] ~= 'n' and num(string.match(some[i + 1], '%d+$')) < now then
    redis.call('HDEL', KEYS[1], some[i])
  end
end
return seq
