-- What all scripts begin with.
--
-- Lua's numbers are doubles, exact below 2^53. Microseconds since 1970 reach
-- that in the year 2255. Only text converts them to strings: Lua's own way
-- (%.14g) would round them.
--
-- Where memory is full the engine ends a script at its first command that needs
-- more, unless it has written before. So what brings an entry or a lease begins
-- with that, and is refused as a whole; what ends or removes something begins
-- with a deletion, and is let through.

-- clock is the engine's, in microseconds since 1970.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function text(n) return string.format('%.0f', n) end

-- read is HMGET of a hash that is ours. What another program has put in its place
-- goes: it is no entry, lease or note.
local function read(key, ...)
  local r = redis.pcall('HMGET', key, ...)
  if type(r) == 'table' and r['err'] then
    if not string.find(r['err'], 'WRONGTYPE', 1, true) then error(r['err']) end
    redis.call('DEL', key)
    r = redis.call('HMGET', key, ...)
  end
  return unpack(r)
end

-- num is a number, 0 for what is none.
local function num(x) return tonumber(x or 0) or 0 end

-- tell pushes the name of a key to everyone who tracks the prefix: that it is
-- written is news, and it is gone before another command runs.
local function tell(key)
  redis.call('SET', key, '')
  redis.call('DEL', key)
end

-- next_fence is higher than the register and the entry's fence.
local function next_fence(now, last, entry)
  return math.max(num(last) + 1, num(entry) + 1, now)
end

-- remember keeps a key's state for ten minutes longer than its entry, and than
-- its lease or cooling, of which us microseconds are left.
local function remember(state, entry, us)
  local ms = math.max(us / 1000, redis.call('PTTL', entry), 0)
  redis.call('PEXPIRE', state, text(math.ceil(ms) + 600000))
end

-- clamp cuts what is left of a span that began before the clock was set back: no
-- more than all of it is. It returns until when, and whether that is news.
local function clamp(now, till, span)
  if span and span > 0 and till - now > span then
    return now + span, true
  end
  return till, false
end

-- store writes an entry, or what is as good as one with no time to live. It is
-- fresh for so many microseconds from now on.
local function store(key, fence, now, fresh, data, keep_ms)
  if keep_ms <= 0 then
    redis.call('DEL', key)
    return
  end
  redis.call('HSET', key, 'f', fence, 'u', text(now + fresh), 'n', text(fresh), 'd', data)
  redis.call('HDEL', key, 'x') -- after it: a full memory refuses scripts whose first write it denies
  redis.call('PEXPIRE', key, text(keep_ms))
end
