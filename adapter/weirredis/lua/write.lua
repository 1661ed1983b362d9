-- Write: sets, expires or removes a key for all instances, ends its lease and its
-- cooling, and advances its fence.
-- KEYS: state, entry.
-- ARGV: prefix of the names of pushes; 'entry', 'expire' or 'remove'; for an
-- entry its bytes, microseconds of freshness, milliseconds to keep it, 1 if it may be
-- pushed.
-- Returns the new fence.
local now = clock()
local fence, fresh = read(KEYS[2], 'f', 'u')
local last, heat = read(KEYS[1], 'f', 'h')
local mine = text(next_fence(now, last, fence))

local push = 'c:'
if ARGV[2] == 'entry' then
  store(KEYS[2], mine, now, tonumber(ARGV[4]), ARGV[3], tonumber(ARGV[5]))
elseif ARGV[2] == 'remove' then
  redis.call('DEL', KEYS[2])
  push = 'r:'
end
redis.call('HDEL', KEYS[1], 'l', 'g', 'c', 'w', 'k', 't', 'r')
redis.call('HSET', KEYS[1], 'f', mine)
if ARGV[2] == 'expire' and fence then -- x: callers that waited for it no longer share it
  redis.call('HSET', KEYS[2], 'u', text(math.min(num(fresh), now)), 'x', '1')
end
if ARGV[2] == 'entry' then
  push_value(KEYS[1], heat, ARGV[1], ARGV[6], mine, now, tonumber(ARGV[4]), ARGV[3])
end
remember(KEYS[1], KEYS[2], 0)
tell(ARGV[1] .. push .. mine)
return mine
