-- Announce: an instance of the fleet is known for a time.
-- KEYS: the roster: of each instance until when it is known and when it was
-- seen, in microseconds since 1970, and what it said.
-- ARGV: its ID, microseconds, what it says.
local now = clock()
redis.call('HSET', KEYS[1], ARGV[1], text(now + ARGV[2]) .. ' ' .. text(now) .. ' ' .. ARGV[3])
redis.call('PEXPIRE', KEYS[1], text(math.max(math.ceil(ARGV[2] / 1000), redis.call('PTTL', KEYS[1]))))

-- A few at random go if their time is over: more than came, so that their number
-- does not grow even if nobody ever looks.
local some = redis.call('HRANDFIELD', KEYS[1], 4, 'WITHVALUES')
for i = 1, #some, 2 do
  if tonumber(string.match(some[i + 1], '^%d+')) <= now then
    redis.call('HDEL', KEYS[1], some[i])
  end
end
return 1
