-- Settle: ends a lease; refused unless its fence is the key's last.
-- KEYS: state, entry.
-- ARGV: fence; prefix of the names of pushes; the result of the load ('entry',
-- 'failure', 'nothing'); then for an entry its bytes, microseconds of freshness,
-- milliseconds to keep it, 1 if it may be pushed, and the time in microseconds at which it is no
-- longer fresh, 0 for none; or otherwise 1 to remove the stored entry, and for a
-- failure its kind, text, cooling and maximum cooling in microseconds.
local now = clock()
local last, row, cooling, heat = read(KEYS[1], 'f', 'r', 'c', 'h')
if last ~= ARGV[1] then
  return 0
end
if ARGV[3] == 'entry' then
  local fresh = tonumber(ARGV[5])
  if ARGV[8] ~= '0' then fresh = math.min(fresh, tonumber(ARGV[8]) - now) end
  store(KEYS[2], last, now, fresh, ARGV[4], tonumber(ARGV[6]))
  redis.call('HDEL', KEYS[1], 'l', 'g', 'c', 'w', 'k', 't', 'r')
  push_value(KEYS[1], heat, ARGV[2], ARGV[7], last, now, fresh, ARGV[4])
  remember(KEYS[1], KEYS[2], 0)
  tell(ARGV[2] .. 'c:' .. last)
  return 1
end

redis.call('HDEL', KEYS[1], 'l')
local left = num(cooling) - now
if ARGV[3] == 'failure' then
  local most = math.max(tonumber(ARGV[7]), tonumber(ARGV[8]))
  row = num(row)
  -- Doubles with each failure in a row. 2^1023 is the largest power of two in a
  -- double.
  left = math.min(most, ARGV[7] * 2 ^ math.min(row, 1000))
  redis.call('HSET', KEYS[1], 'c', text(now + left), 'w', text(left), 'k', ARGV[5], 't', ARGV[6], 'r', text(row + 1))
end
if ARGV[4] == '1' then
  redis.call('DEL', KEYS[2])
  tell(ARGV[2] .. 'r:' .. last)
end
remember(KEYS[1], KEYS[2], left)
tell(ARGV[2] .. 'l:' .. last)
return 1
