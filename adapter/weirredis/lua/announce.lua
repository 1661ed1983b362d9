-- Announce: makes an instance of the fleet known for a time.
-- KEYS: the roster: for each instance its expiry and when it was seen, in
-- microseconds since 1970, and its data.
-- ARGV: its ID, microseconds, its data.
local now = clock()
redis.call('HSET', KEYS[1], ARGV[1], text(now + ARGV[2]) .. ' ' .. text(now) .. ' ' .. ARGV[3])
redis.call('PEXPIRE', KEYS[1], text(math.max(math.ceil(ARGV[2] / 1000), redis.call('PTTL', KEYS[1]))))

-- Delete a few random instances if they have expired: more than were added, so that
-- their number stays bounded even if Instances is never called.
local some = redis.call('HRANDFIELD', KEYS[1], 4, 'WITHVALUES')
for i = 1, #some, 2 do
  if tonumber(string.match(some[i + 1], '^%d+')) <= now then
    redis.call('HDEL', KEYS[1], some[i])
  end
end
return 1
