-- Spend: takes units of cost out of a token bucket, or none; see fleet.Ledger. Units are
-- doubles: rounded by less than 10^-9 of what is out.
-- KEYS: the bucket. ARGV: units, per in nanoseconds, burst, units wanted.
-- Returns 1 or 0, the microseconds until there are enough, the units left, 1 if foreign
-- contents were replaced, and after a 1 the mark.
-- The fields of the bucket: x units that are out, at the time, l units that have leaked
-- since the epoch e, q spendings, n corrections that returned units, r these units.
local now = clock()
local units, per, burst, want = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local rate = units / per * 1000 -- per microsecond
local x, at, l, e, q, n, r = read(KEYS[1], 'x', 'at', 'l', 'e', 'q', 'n', 'r')
x, at, l, q, n, r = amount(x, 0), amount(at, now), amount(l, 0), amount(q, 0), amount(n, 0), amount(r, 0)
if replaced == 1 or e and not tonumber(e) then
  x, at, l, e, q, n, r = 0, now, 0, nil, 0, 0, 0 -- foreign: the bucket begins anew
end
local gone = math.max(0, now - at) * rate -- if the clock was set back, nothing leaks
x, l = math.max(0, x - gone), l + gone

local function exact(v) return string.format('%.17g', v) end

if want - (burst - x) > 1e-6 then
  return {'0', text(math.ceil((want - burst + x) / rate)), exact(burst - x), text(replaced)}
end
x, q, e = x + want, q + 1, e or text(now)
redis.call('HSET', KEYS[1], 'x', exact(x), 'at', text(now), 'l', exact(l), 'e', e, 'q', text(q), 'n', text(n), 'r', text(r))
redis.call('PEXPIRE', KEYS[1], text(math.ceil(x / rate / 1000) + 1))
return {'1', '0', exact(burst - x), text(replaced), e, text(q), exact(x), exact(l), text(n), text(r)}
