-- Take: takes permits by the generic cell rate algorithm, in the form that ITU-T
-- I.371 calls the continuous-state leaky bucket. A permit fills the bucket by `per`;
-- in each nanosecond `permits` leak; it holds `burst` times `per`. These are
-- integers: nothing is rounded below 2^53, and above that by less than 10^-9 of a
-- permit.
-- KEYS: the bucket. ARGV: permits, per in nanoseconds, burst, permits wanted.
-- Returns the permits taken, the microseconds until one is available, and 1 if the bucket
-- had foreign contents, which a full bucket of permits replaces.
local now = clock()
local permits, per, burst, want = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local level, at, was = read(KEYS[1], 'x', 'at', 'per')
level, at, was = amount(level, 0), amount(at, now), amount(was, per)
if replaced == 1 or was == 0 then
  level, at, was = 0, now, per -- what one field says is worth nothing without the others
end

-- If the clock was set back, nothing leaks. A new rate keeps the number of permits.
level = math.max(0, level - math.max(0, now - at) * 1000 * permits)
if was ~= per then
  level = math.ceil(level / was * per)
end

local room = burst * per - level
local taken = math.max(0, math.min(want, math.floor(room / per)))
level = level + taken * per
redis.call('HSET', KEYS[1], 'x', string.format('%.17g', level), 'at', text(now), 'per', text(per))
redis.call('PEXPIRE', KEYS[1], text(math.ceil(level / permits / 1000000) + 1))
if taken == 0 then
  return {0, math.ceil((per - room) / permits / 1000), replaced}
end
return {taken, 0, replaced}
