-- Claims: one script for all operations on the records of calls that run at most once; see
-- once.Store and decision 0153. All keys are in one slot.
-- KEYS: the base of their names. ARGV: the operation, the gateway, the writes of it that
-- were confirmed, for how many milliseconds it is alive after this, the mark of the contents
-- that it knows, and:
--   get: the record
--   put: the record, its version, the version that it replaces or 0, its state, its owner,
--        its principal, its weight, the milliseconds that it is kept, its contents, the
--        bounds: keys, bytes, and the part of them that one principal can use
--   del: the record, its version
--   live, leave
--   list: how many, whether claimed ones are wanted, whether unknown ones are
-- Returns the result, the writes of the gateway, keys, bytes, unknown calls, and more.
--
-- Under the base:
--   r:RECORD  v version, s state, o owner, m contents
--   x         records by the time at which they expire, in milliseconds of the engine's clock
--   w         for each record: its weight and its principal
--   c, d      records that are claimed and unknown, by when they became so
--   p         for each principal: its keys and bytes
--   u         k keys, b bytes, l 1 once writes that were confirmed are missing
--   s         for each gateway: its writes, and when it was last seen
--   mark      of the secret, and of these contents
--   a:OWNER   exists while the gateway is alive
-- None but a:OWNER has a time to live: an engine that evicts keys must not evict these.
local base, op, own, confirmed, alive = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local now = math.floor(clock() / 1000)
local usage = base .. 'u'

local function result(what, more)
  local n = string.match(redis.call('HGET', base .. 's', own) or '0', '^%d+')
  local all = {what, n, redis.call('HGET', usage, 'k') or '0', redis.call('HGET', usage, 'b') or '0', text(redis.call('ZCARD', base .. 'd'))}
  for _, v in ipairs(more or {}) do all[#all + 1] = v end -- a Lua stack has no room for all of a list
  return all
end

-- A gateway whose confirmed writes are missing has found out that the engine has lost some,
-- perhaps with claims of others. Nothing is decided any more from what is left.
local written = tonumber(string.match(redis.call('HGET', base .. 's', own) or '0', '^%d+'))
if written < confirmed or redis.call('GET', base .. 'mark') ~= ARGV[5] then redis.call('HSET', usage, 'l', '1') end
-- Each record is in x, in w and in the count: without one of these, the engine has evicted a key, or a
-- program has removed it, and records that are left could look absent.
local count_x, count_w, count_u = redis.call('ZCARD', base .. 'x'), redis.call('HLEN', base .. 'w'), num(redis.call('HGET', usage, 'k') or '0')
if count_x ~= count_u or count_w ~= count_u then redis.call('HSET', usage, 'l', '1') end
if redis.call('HGET', usage, 'l') then return result('lost') end

local function wrote()
  written = written + 1
  redis.call('HSET', base .. 's', own, text(written) .. ' ' .. text(now))
end

local function count(weight, principal, n)
  redis.call('HINCRBY', usage, 'k', n)
  redis.call('HINCRBY', usage, 'b', n * weight)
  local k, b = string.match(redis.call('HGET', base .. 'p', principal) or '0 0', '^(%d+) (%d+)$')
  k, b = tonumber(k) + n, tonumber(b) + n * weight
  if k <= 0 then
    redis.call('HDEL', base .. 'p', principal)
  else
    redis.call('HSET', base .. 'p', principal, text(k) .. ' ' .. text(b))
  end
end

local function drop(id)
  local weight, principal = string.match(redis.call('HGET', base .. 'w', id) or '', '^(%d+) (%x*)$')
  if weight then count(tonumber(weight), principal, -1) end
  redis.call('DEL', base .. 'r:' .. id)
  redis.call('HDEL', base .. 'w', id)
  redis.call('ZREM', base .. 'x', id)
  redis.call('ZREM', base .. 'c', id)
  redis.call('ZREM', base .. 'd', id)
end

local function expire(most)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', base .. 'x', '-inf', text(now), 'LIMIT', 0, most)) do drop(id) end
end

-- doubt makes a claim unknown whose gateway is gone. It gets another version, so that the
-- gateway cannot change it any more, if it is alive after all.
local function doubt(id, version)
  redis.call('HSET', base .. 'r:' .. id, 's', '4', 'v', text(tonumber(version) + 4503599627370496)) -- 2^52: clients use the numbers below
  redis.call('ZREM', base .. 'c', id)
  redis.call('ZADD', base .. 'd', text(now), id)
end

-- current returns the fields of a record, nothing if there is none.
local function current(id)
  local till = redis.call('ZSCORE', base .. 'x', id)
  if not till then return nil end
  if tonumber(till) <= now then
    drop(id)
    return nil
  end
  local version, state, owner, contents = unpack(redis.call('HMGET', base .. 'r:' .. id, 'v', 's', 'o', 'm'))
  if not version or not contents then -- another program has removed a part
    redis.call('HSET', usage, 'l', '1')
    return nil
  end
  if state == '1' and owner ~= own and redis.call('EXISTS', base .. 'a:' .. owner) == 0 then
    doubt(id, version)
    return current(id)
  end
  return version, state, owner, contents, text(tonumber(till) - now)
end

if op == 'leave' then
  redis.call('DEL', base .. 'a:' .. own)
  return result('ok')
end
redis.call('SET', base .. 'a:' .. own, '', 'PX', alive)

if op == 'get' then
  local found = {current(ARGV[6])}
  if redis.call('HGET', usage, 'l') then return result('lost') end
  return result('ok', found)
end

if op == 'put' or op == 'del' then
  local id, version = ARGV[6], ARGV[7]
  local was = current(id)
  if redis.call('HGET', usage, 'l') then return result('lost') end
  if op == 'del' then
    if was ~= version then return result('conflict') end
    drop(id)
    wrote()
    return result('ok')
  end
  local old, state, owner, principal = ARGV[8], ARGV[9], ARGV[10], ARGV[11]
  local weight, keep, contents = tonumber(ARGV[12]), tonumber(ARGV[13]), ARGV[14]
  local keys, bytes, share = tonumber(ARGV[15]), tonumber(ARGV[16]), tonumber(ARGV[17])
  if (was or '0') ~= old then return result('conflict') end
  if was then
    drop(id)
  else
    expire(64)
    local k, b = unpack(redis.call('HMGET', usage, 'k', 'b'))
    if num(k) + 1 > keys or num(b) + weight > bytes then return result('full') end
    k, b = string.match(redis.call('HGET', base .. 'p', principal) or '0 0', '^(%d+) (%d+)$')
    if (tonumber(k) + 1) * share > keys or (tonumber(b) + weight) * share > bytes then return result('share') end
  end
  redis.call('HSET', base .. 'r:' .. id, 'v', version, 's', state, 'o', owner, 'm', contents)
  redis.call('HSET', base .. 'w', id, text(weight) .. ' ' .. principal)
  redis.call('ZADD', base .. 'x', text(now + keep), id)
  if state == '1' then redis.call('ZADD', base .. 'c', text(now), id) end
  if state == '4' then redis.call('ZADD', base .. 'd', text(now), id) end
  count(weight, principal, 1)
  wrote()
  return result('ok')
end

if op == 'live' then
  expire(256)
  redis.call('HSET', base .. 's', own, text(written) .. ' ' .. text(now)) -- no write: a failover may lose it
  for _, id in ipairs(redis.call('ZRANGE', base .. 'c', 0, 255)) do current(id) end
  local some = redis.call('HRANDFIELD', base .. 's', 4, 'WITHVALUES')
  for i = 1, #some, 2 do -- of gateways that have not been seen for a week
    if num(string.match(some[i + 1], ' (%d+)$')) + 604800000 < now then redis.call('HDEL', base .. 's', some[i]) end
  end
  return result('ok')
end

if op == 'list' then
  local all = {}
  local function add(set)
    if #all / 6 >= tonumber(ARGV[6]) then return end
    for _, id in ipairs(redis.call('ZRANGE', base .. set, 0, tonumber(ARGV[6]) - #all / 6 - 1)) do
      local version, state, owner, contents, left = current(id)
      if version then
        for _, v in ipairs({id, version, state, owner, contents, left}) do all[#all + 1] = v end
      end
    end
  end
  if ARGV[8] == '1' then add('d') end
  if ARGV[7] == '1' then add('c') end
  return result('ok', all)
end
return redis.error_reply('unknown operation')
