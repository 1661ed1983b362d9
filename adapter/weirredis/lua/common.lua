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

-- replaced is 1 if another program has stored something under a key of ours.
local replaced = 0

-- read is HMGET of one of our hashes. If another program has stored something else
-- under the key, read deletes it: it is not an entry, lease or record.
local function read(key, ...)
  local r = redis.pcall('HMGET', key, ...)
  if type(r) == 'table' and r['err'] then
    if not string.find(r['err'], 'WRONGTYPE', 1, true) then error(r['err']) end
    redis.call('DEL', key)
    replaced = 1
    r = redis.call('HMGET', key, ...)
  end
  return unpack(r)
end

-- amount converts a field of a bucket to a number that is finite and at least 0, or
-- returns what it is without the field.
local function amount(x, without)
  if not x then return without end
  local v = tonumber(x)
  if v and v >= 0 and v < math.huge then return v end
  replaced = 1
  return without
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

-- asked counts a fresh or held answer in the field h of the state, if its caller would
-- have used a pushed value. h is the number of those since the last store; less than
-- 0: how many stores push their value without counting; '-': the last value must not be
-- pushed. A memory that is full does not fail the answer.
local function asked(state, h)
  if h ~= '-' and num(h) >= 0 then
    redis.pcall('HSET', state, 'h', text(num(h) + 1))
  end
end

-- pays returns how many requests a pushed value of this many bytes must save: the
-- engine's costs, in ns, per instance and per byte, next to a request (fleet.PushPays).
-- Without the right to run INFO it is never pushed.
local function pays(bytes)
  local info = redis.pcall('INFO', 'clients')
  local n = type(info) == 'string' and tonumber(string.match(info, 'tracking_clients:(%d+)'))
  return n and 1 + math.floor(n * (160 + 0.51 * bytes) / 47000) or math.huge
end

-- push_value pushes a value that was just stored, if it may be and if that pays. Its name
-- sorts before the one that reports the change: a message of the engine is in the order of
-- names, so an instance has the value before it is woken. A version that does not know
-- the kind b ignores it.
local function push_value(state, h, prefix, may, fence, now, fresh, data)
  if may ~= '1' then
    if h and h ~= '-' then redis.call('HSET', state, 'h', '-') end
    return
  end
  local n = num(h)
  if n < 0 then
    n = n + 1
  elseif n > 0 and n >= pays(#data) then
    n = -16 -- fleet.PushRun
  else
    if h then redis.call('HDEL', state, 'h') end
    return
  end
  redis.call('HSET', state, 'h', text(n))
  tell(prefix .. 'b:' .. fence .. ':' .. text(now) .. ':' .. text(fresh) .. ':' .. data)
end
