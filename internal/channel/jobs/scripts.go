package jobs

// The scripts. Each is one step that happens or does not; those that remove an entry write nothing before, so a full Redis refuses them
// whole.
const (
	// beat renews a bridge's lease.
	// KEYS: alive, bridges. ARGV: bridge, lease in ms.
	luaBeat = `
redis.call('SET', KEYS[1], 1, 'PX', ARGV[2])
redis.call('ZADD', KEYS[2], redis.call('TIME')[1], ARGV[1])
return 1`

	// dead lists the bridges without a lease that hold jobs, and forgets those of yesterday that hold none.
	// KEYS: bridges. ARGV: prefixes of alive and processing, seconds after which a bridge is of yesterday.
	luaDead = `
local found = {}
local old = redis.call('TIME')[1] - ARGV[3]
local list = redis.call('ZRANGE', KEYS[1], 0, 9999, 'WITHSCORES')
for i = 1, #list, 2 do
  if redis.call('EXISTS', ARGV[1] .. list[i]) == 0 then
    if redis.call('LLEN', ARGV[2] .. list[i]) > 0 then
      found[#found + 1] = list[i]
    elseif tonumber(list[i + 1]) < old then
      redis.call('ZREM', KEYS[1], list[i])
    end
  end
end
return found`

	// giveBack moves jobs from a processing list to the head of the queue, the last first, so that they stand there in their order. It
	// returns how many, or -1 for a bridge that lives: ARGV 2 is 1 for a bridge that gives back its own, and leaves with the last.
	// KEYS: queue, processing, alive, bridges. ARGV: bridge, own, most.
	luaGiveBack = `
local own = ARGV[2] == '1'
if not own and redis.call('EXISTS', KEYS[3]) == 1 then return -1 end
local n, most = 0, tonumber(ARGV[3])
while n < most and redis.call('LMOVE', KEYS[2], KEYS[1], 'RIGHT', 'LEFT') do n = n + 1 end
if own and n < most then
  redis.call('DEL', KEYS[3])
  redis.call('ZREM', KEYS[4], ARGV[1])
end
return n`

	// begin marks an attempt as running and returns the marks of the attempts before it, the latest first. One that has ended already is
	// dropped: then it returns nothing at all.
	// KEYS: processing, attempt, earlier attempts. ARGV: message, ms to remember.
	luaBegin = `
local mark = redis.call('GET', KEYS[2])
if mark == 'completed' or mark == 'failed' then
  redis.call('LREM', KEYS[1], 1, ARGV[1])
  return {}
end
redis.call('SET', KEYS[2], 'running', 'PX', ARGV[2])
local marks = {'running'}
for i = 3, #KEYS do marks[i - 1] = redis.call('GET', KEYS[i]) or '' end
return marks`

	// publish ends an attempt. It returns published; gone, when the entry is not the bridge's any more; duplicate, when the attempt was
	// answered already; occupied, when something else than a list is where the result belongs.
	// KEYS: processing, attempt, results. ARGV: message, status, ms to remember, result, ms to keep it or 0.
	luaPublish = `
local kind = redis.call('TYPE', KEYS[3]).ok
if kind ~= 'none' and kind ~= 'list' then return 'occupied' end
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 'gone' end
local mark = redis.call('GET', KEYS[2])
if mark == 'completed' or mark == 'failed' then return 'duplicate' end
redis.call('RPUSH', KEYS[3], ARGV[4])
if tonumber(ARGV[5]) > 0 then redis.call('PEXPIRE', KEYS[3], ARGV[5]) end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return 'published'`

	// bury puts a message among the dead, and a result, if there is one, to its producer. It returns 1, or 0 when the entry is not the
	// bridge's any more.
	// KEYS: processing, dead, results. ARGV: message, dead letter, letters to keep, result or nothing, ms to keep it or 0.
	luaBury = `
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 0 end
redis.call('LPUSH', KEYS[2], ARGV[2])
redis.call('LTRIM', KEYS[2], 0, ARGV[3] - 1)
local kind = redis.call('TYPE', KEYS[3]).ok
if ARGV[4] ~= '' and (kind == 'none' or kind == 'list') then
  redis.call('RPUSH', KEYS[3], ARGV[4])
  if tonumber(ARGV[5]) > 0 then redis.call('PEXPIRE', KEYS[3], ARGV[5]) end
end
return 1`
)
