-- Acquire: returns a value, the right to load it, or the reason why it returns neither.
-- KEYS: state, entry.
-- ARGV: entries up to this fence are stale; from this fence on they are fresh
-- (0: none); lease in microseconds; 1 to load even while cooling; 1 if a pushed value
-- would have been used instead.
-- Returns grant (as fleet.Grant), fence, remaining; of the entry its fence ('' for
-- no entry), remaining freshness, bytes; of the failure kind and text; the time.
-- All times are in microseconds.
local now = clock()
local fence, fresh, data, ended, lasts = read(KEYS[2], 'f', 'u', 'd', 'x', 'n')
local last, lease, cooling, kind, why, granted, cools, heat = read(KEYS[1], 'f', 'l', 'c', 'k', 't', 'g', 'w', 'h')
lease, cooling = num(lease), num(cooling)
if not (fence and tonumber(fence) and fresh and tonumber(fresh) and data) then -- none, or not in our format
  fence, data = false, false
end

-- A clock that was set back must not lengthen earlier grants. An older version stored
-- no length; then the requested one is used.
local news
lease, news = clamp(now, lease, math.max(num(granted), tonumber(ARGV[3])))
if news then redis.call('HSET', KEYS[1], 'l', text(lease)) end
cooling, news = clamp(now, cooling, num(cools))
if news then redis.call('HSET', KEYS[1], 'c', text(cooling)) end
if fence then
  fresh, news = clamp(now, tonumber(fresh), num(lasts))
  if news then redis.call('HSET', KEYS[2], 'u', text(fresh)) end
end

local function answer(grant, number, remaining)
  local left = fence and text(fresh - now) or ''
  return {grant, number, text(remaining), fence or '', left, data or '', kind or '', why or '', text(now)}
end

if fence then
  local newer, joined, f = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(fence)
  if (joined > 0 and f >= joined and not ended) or (f > newer and fresh > now) then
    if ARGV[5] == '1' and last then asked(KEYS[1], heat) end -- without a state, it would never expire
    return answer(1, '0', 0)
  end
end
if lease > now then
  if ARGV[5] == '1' then asked(KEYS[1], heat) end
  return answer(3, text(num(last)), lease - now)
end
if cooling > now and ARGV[4] ~= '1' then
  return answer(4, '0', cooling - now)
end
local mine = text(next_fence(now, last, fence))
local span = tonumber(ARGV[3])
redis.call('HSET', KEYS[1], 'f', mine, 'l', text(now + span), 'g', ARGV[3])
remember(KEYS[1], KEYS[2], math.max(span, cooling - now))
return answer(2, mine, 0)
