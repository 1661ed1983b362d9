-- The common beginning of all scripts.
--
-- Lua's numbers are doubles, exact below 2^53. Microseconds since 1970 reach that in
-- the year 2255. Only text may convert them to strings: Lua's default (%.14g) would
-- round them.
--
-- When memory is full, the engine aborts a script at its first command that needs
-- more, unless the script has already written. So scripts that store an entry or a
-- lease write it first, and fail as a whole; scripts that end or remove something
-- start with a deletion, and succeed.

-- clock returns the engine's time, in microseconds since 1970.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function text(n) return string.format('%.0f', n) end

-- read is HMGET of one of our hashes. If another program has stored something else
-- under the key, read deletes it: it is not an entry, lease or record.
local function read(key, ...)
  local r = redis.pcall('HMGET', key, ...)
  if type(r) == 'table' and r['err'] then
    if not string.find(r['err'], 'WRONGTYPE', 1, true) then error(r['err']) end
    redis.call('DEL', key)
    r = redis.call('HMGET', key, ...)
  end
  return unpack(r)
end

-- num converts x to a number, 0 if x is not one.
local function num(x) return tonumber(x or 0) or 0 end

-- tell pushes the name of a key to all clients that track the prefix: the write
-- triggers the push, and the key is deleted before another command runs.
local function tell(key)
  redis.call('SET', key, '')
  redis.call('DEL', key)
end

-- next_fence returns a fence higher than the register and the entry's fence.
local function next_fence(now, last, entry)
  return math.max(num(last) + 1, num(entry) + 1, now)
end

-- remember keeps a key's state for ten minutes longer than its entry, and than its
-- lease or cooling, which has us microseconds left.
local function remember(state, entry, us)
  local ms = math.max(us / 1000, redis.call('PTTL', entry), 0)
  redis.call('PEXPIRE', state, text(math.ceil(ms) + 600000))
end

-- clamp limits the remaining time of a span that began before the clock was set back:
-- it may not exceed the full span. It returns the end, and whether it changed.
local function clamp(now, till, span)
  if span and span > 0 and till - now > span then
    return now + span, true
  end
  return till, false
end

-- store writes an entry, or deletes it if its time to live is not positive. The entry
-- is fresh for `fresh` microseconds from now.
local function store(key, fence, now, fresh, data, keep_ms)
  if keep_ms <= 0 then
    redis.call('DEL', key)
    return
  end
  redis.call('HSET', key, 'f', fence, 'u', text(now + fresh), 'n', text(fresh), 'd', data)
  redis.call('HDEL', key, 'x') -- after HSET, so that a full memory rejects the script at its first write
  redis.call('PEXPIRE', key, text(keep_ms))
end
