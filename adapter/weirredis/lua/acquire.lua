-- Acquire: a value, the right to load it, or why there is neither.
-- KEYS: state, entry.
-- ARGV: entries up to this fence are stale; from this fence on they are fresh
-- (0: none); lease in microseconds; 1 to load while cooling, too.
-- Returns grant (as fleet.Grant), fence, remaining, and of the entry its fence
-- ('' for no entry), freshness left, bytes; of the failure kind and text.
-- All times in microseconds.
local now = clock()
local fence, fresh, data, ended = unpack(redis.call('HMGET', KEYS[2], 'f', 'u', 'd', 'x'))
local last, lease, cooling, kind, why = unpack(redis.call('HMGET', KEYS[1], 'f', 'l', 'c', 'k', 't'))
lease, cooling = tonumber(lease or 0), tonumber(cooling or 0)

local function answer(grant, number, remaining)
  local left = fence and text(fresh - now) or ''
  return {grant, number, text(remaining), fence or '', left, data or '', kind or '', why or ''}
end

if fence then
  local newer, joined, f = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(fence)
  if (joined > 0 and f >= joined and not ended) or (f > newer and tonumber(fresh) > now) then
    return answer(1, '0', 0)
  end
end
if lease > now then
  return answer(3, last, lease - now)
end
if cooling > now and ARGV[4] ~= '1' then
  return answer(4, '0', cooling - now)
end
local mine = text(next_fence(now, last, fence))
local span = tonumber(ARGV[3])
redis.call('HSET', KEYS[1], 'f', mine, 'l', text(now + span))
remember(KEYS[1], KEYS[2], math.max(span, cooling - now))
return answer(2, mine, 0)
