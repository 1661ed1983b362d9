-- Correct: gives units of cost back, or takes what a call lacked; see fleet.Ledger and
-- spend.lua.
-- KEYS: the bucket, the latest corrections that returned units (a list of
-- "spending:units:total"). ARGV: units, per in nanoseconds, burst, debt, units spent, cost,
-- and the mark: epoch, spending, units that were out, leaked, corrections, units returned;
-- then how many corrections to remember.
-- Returns the units that were given back, those that were taken, those left, and 1 if foreign
-- contents were replaced.
local now = clock()
local units, per, burst, debt = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local spent, cost = tonumber(ARGV[5]), tonumber(ARGV[6])
local rate = units / per * 1000
local x, at, l, e, q, n, r = read(KEYS[1], 'x', 'at', 'l', 'e', 'q', 'n', 'r')
x, at, l, q, n, r = amount(x, 0), amount(at, now), amount(l, 0), amount(q, 0), amount(n, 0), amount(r, 0)
if replaced == 1 or e and not tonumber(e) then
  x, at, l, e, q, n, r = 0, now, 0, nil, 0, 0, 0 -- foreign: the bucket begins anew
end
local gone = math.max(0, now - at) * rate
x, l = math.max(0, x - gone), l + gone
local back, took = 0, 0

local function exact(v) return string.format('%.17g', v) end

if type(redis.pcall('LLEN', KEYS[2])) == 'table' then
  redis.call('DEL', KEYS[2]) -- it is no list
  replaced = 1
end

-- before returns how many units, of those in front of the mark's, were given back after it.
local function before(mark_q, mark_n, mark_r)
  local sum, start = 0, 0
  local forgotten = n - redis.call('LLEN', KEYS[2])
  local all = redis.call('LRANGE', KEYS[2], math.max(0, mark_n - forgotten), -1)
  if #all == 0 and mark_n < n then return r - mark_r end -- they have expired
  for i, entry in ipairs(all) do
    local s, u, total = string.match(entry, '^(%d+):(%d+):(%d+)$')
    if i == 1 and mark_n < forgotten then
      sum = tonumber(total) - tonumber(u) - mark_r
    end
    if tonumber(s) < mark_q then sum = sum + tonumber(u) end
  end
  return sum
end

if cost > spent then
  took = math.max(0, math.min(cost - spent, math.floor(burst + debt - x + 1e-6)))
  x = x + took
elseif e and ARGV[7] == e then
  local left = tonumber(ARGV[9]) - (l - tonumber(ARGV[10])) - before(tonumber(ARGV[8]), tonumber(ARGV[11]), tonumber(ARGV[12]))
  back = math.max(0, math.floor(math.min(spent - cost, left + 1e-6)))
  if back > 0 then
    x, n, r = math.max(0, x - back), n + 1, r + back
  end
end
if back + took > 0 then
  redis.call('HSET', KEYS[1], 'x', exact(x), 'at', text(now), 'l', exact(l), 'e', e or text(now), 'q', text(q), 'n', text(n), 'r', text(r))
  local ms = text(math.ceil(x / rate / 1000) + 1)
  redis.call('PEXPIRE', KEYS[1], ms)
  if back > 0 then
    redis.call('RPUSH', KEYS[2], text(tonumber(ARGV[8])) .. ':' .. text(back) .. ':' .. text(r))
    redis.call('LTRIM', KEYS[2], -tonumber(ARGV[13]), -1)
  end
  redis.call('PEXPIRE', KEYS[2], ms)
end
return {text(back), text(took), exact(burst - x), text(replaced)}
