package jobs

// The scripts. Each is one step that happens or does not; those that remove an entry write nothing before, so a full Redis refuses them
// whole, and look at the type of every key before, since Redis takes nothing back when a later command fails. An attempt whose key holds
// anything but a mark has none, and is marked in its place.
const (
	// The scripts' words: the mark of an attempt, or nothing; whether a list is there or can be.
	luaMark = `
local function mark(key)
  if redis.call('TYPE', key).ok ~= 'string' then return '' end
  return redis.call('GET', key) or ''
end
local function room(key)
  local kind = redis.call('TYPE', key).ok
  return kind == 'none' or kind == 'list'
end`

	// push puts a message into the queue and returns nothing, or, when its attempt has ended already, returns its mark and leaves the message.
	// KEYS: queue, attempt. ARGV: message.
	luaPush = luaMark + `
local own = mark(KEYS[2])
if own == 'completed' or own == 'failed' then return own end
redis.call('RPUSH', KEYS[1], ARGV[1])
return ''`

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
	luaBegin = luaMark + `
local own = mark(KEYS[2])
if own == 'completed' or own == 'failed' then
  redis.call('LREM', KEYS[1], 1, ARGV[1])
  return {}
end
redis.call('SET', KEYS[2], 'running', 'PX', ARGV[2])
local marks = {'running'}
for i = 3, #KEYS do marks[i - 1] = mark(KEYS[i]) end
return marks`

	// publish ends an attempt. It returns published; gone, when the entry is not the bridge's any more; duplicate, when the attempt was
	// answered already; occupied, when something else than a list is where the result belongs.
	// KEYS: processing, attempt, results. ARGV: message, status, ms to remember, result, ms to keep it or 0.
	luaPublish = luaMark + `
if not room(KEYS[3]) then return 'occupied' end
local own = mark(KEYS[2])
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 'gone' end
if own == 'completed' or own == 'failed' then return 'duplicate' end
redis.call('RPUSH', KEYS[3], ARGV[4])
if tonumber(ARGV[5]) > 0 then redis.call('PEXPIRE', KEYS[3], ARGV[5]) end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return 'published'`

	// bury puts a message among the dead, and a result, if there is one, to its producer. It returns buried; gone, when the entry is not the
	// bridge's any more; occupied, when something else than a list is where the dead belong: the entry stays then, and the result is sent.
	// KEYS: processing, dead, results. ARGV: message, dead letter, letters to keep, result or nothing, ms to keep it or 0.
	luaBury = luaMark + `
local how, tell = 'occupied', ARGV[4] ~= '' and room(KEYS[3])
if room(KEYS[2]) then
  if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 'gone' end
  redis.call('LPUSH', KEYS[2], ARGV[2])
  redis.call('LTRIM', KEYS[2], 0, ARGV[3] - 1)
  how = 'buried'
elseif not redis.call('LPOS', KEYS[1], ARGV[1]) then
  return 'gone'
end
if tell then
  redis.call('RPUSH', KEYS[3], ARGV[4])
  if tonumber(ARGV[5]) > 0 then redis.call('PEXPIRE', KEYS[3], ARGV[5]) end
end
return how`
)
