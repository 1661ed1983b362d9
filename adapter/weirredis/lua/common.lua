-- What all scripts begin with.
--
-- Lua's numbers are doubles, exact below 2^53. Microseconds since 1970 reach
-- that in the year 2255. Text is made of them by text only: Lua's own way
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

-- tell pushes the name of a key to everyone who tracks the prefix: that it is
-- written is news, and it is gone before another command runs.
local function tell(key)
  redis.call('SET', key, '')
  redis.call('DEL', key)
end

-- next_fence is higher than the register and the entry's fence.
local function next_fence(now, last, entry)
  return math.max((tonumber(last or 0)) + 1, (tonumber(entry or 0)) + 1, now)
end

-- remember keeps a key's state for ten minutes longer than its entry, and than
-- its lease or cooling, of which us microseconds are left.
local function remember(state, entry, us)
  local ms = math.max(us / 1000, redis.call('PTTL', entry), 0)
  redis.call('PEXPIRE', state, text(math.ceil(ms) + 600000))
end

-- store writes an entry, or what is as good as one with no time to live.
local function store(key, fence, fresh_until, data, keep_ms)
  if keep_ms <= 0 then
    redis.call('DEL', key)
    return
  end
  redis.call('HSET', key, 'f', fence, 'u', text(fresh_until), 'd', data)
  redis.call('HDEL', key, 'x') -- after it: a full memory refuses scripts whose first write it denies
  redis.call('PEXPIRE', key, text(keep_ms))
end
