-- Extend: prolongs a lease that is still held.
-- KEYS: state, entry. ARGV: fence, microseconds from now.
local now = clock()
local last, lease, cooling = read(KEYS[1], 'f', 'l', 'c')
if last ~= ARGV[1] or num(lease) <= now then
  return 0
end
redis.call('HSET', KEYS[1], 'l', text(now + ARGV[2]), 'g', ARGV[2])
remember(KEYS[1], KEYS[2], math.max(ARGV[2], num(cooling) - now))
return 1
