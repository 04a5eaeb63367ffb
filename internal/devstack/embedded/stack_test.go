package embedded_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/devstack"
	"github.com/turnstone-run/turnstone/internal/devstack/embedded"
	"github.com/turnstone-run/turnstone/internal/devstack/pgdev"
	"github.com/turnstone-run/turnstone/internal/redis"
)

func TestStackStartsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	var progress []string
	stack, err := devstack.Start(t.Context(), devstack.Config{
		Temporal: &devstack.TemporalConfig{EnableUI: true}, StartTemporal: embedded.Start,
		Postgres: &pgdev.Config{},
		Flights:  &devstack.FlightsConfig{},
		Redis:    &devstack.RedisConfig{},
		Progress: func(text string) { progress = append(progress, text) },
	})
	require.NoError(t, err)
	pid := stack.Postgres.Pid()
	require.Contains(t, fetch(t, stack.Flights.URL()+"/flights?origin=NYC&dest=LAX&limit=1"), `"price"`)
	require.Contains(t, fetch(t, stack.Temporal.UIURL()), "/_app/immutable/")
	requireRedis(t, stack.Redis.URL())
	require.NotZero(t, pid)
	require.Contains(t, progress, "starting the Temporal server…")
	require.Contains(t, progress, "initialising PostgreSQL (first run)…")

	require.NoError(t, stack.Close(t.Context()))
	require.NoError(t, stack.Close(t.Context()), "closing twice is harmless")
	require.Zero(t, stack.Postgres.Pid())
	redisAddress := strings.TrimSuffix(strings.TrimPrefix(stack.Redis.URL(), "redis://"), "/0")
	for _, address := range []string{stack.Temporal.Address(), stack.Flights.URL()[len("http://"):], redisAddress} {
		_, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		require.Error(t, err, "%s still answers", address)
	}

	empty, err := devstack.Start(t.Context(), devstack.Config{})
	require.NoError(t, err)
	require.Equal(t, &devstack.Stack{}, empty)
	require.NoError(t, empty.Close(t.Context()))
}

// requireRedis checks that a Redis server answers and that keys expire.
func requireRedis(t *testing.T, address string) {
	t.Helper()
	options, err := redis.ParseURL(address)
	require.NoError(t, err)
	client := redis.New(*options)
	defer client.Close()
	do := func(command string, args ...any) any {
		reply, err := client.Do(t.Context(), command, args...)
		require.NoError(t, err)
		return reply
	}
	do("SET", "a", "b", "EX", 1)
	require.Equal(t, []byte("b"), do("GET", "a"))
	require.Eventually(t, func() bool { return do("EXISTS", "a") == int64(0) }, 10*time.Second, 20*time.Millisecond)
}

func TestStackThatCannotStartLeavesNothing(t *testing.T) {
	t.Parallel()
	busy, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	port := portOf(t, busy.Addr().String())

	dir, err := os.MkdirTemp("", "devstack-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755)) // if this process is root, PostgreSQL runs as another user
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })

	cfg := devstack.Config{
		DataDir:  dir,
		Postgres: &pgdev.Config{},
		Flights:  &devstack.FlightsConfig{Port: port},
	}
	_, err = devstack.Start(t.Context(), cfg)
	require.ErrorIs(t, err, devstack.ErrPortInUse)
	require.ErrorContains(t, err, strconv.Itoa(port))
	require.NoFileExists(t, filepath.Join(dir, "postgres", "data", "postmaster.pid"), "the database was stopped again")

	cfg.AnyPort = true
	stack, err := devstack.Start(t.Context(), cfg)
	require.NoError(t, err, "the folder is not locked")
	require.NoError(t, stack.Close(t.Context()))
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	return port
}
