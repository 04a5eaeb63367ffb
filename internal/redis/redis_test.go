package redis_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/redis"
)

func TestParseURL(t *testing.T) {
	withTLS := func(host string, insecure bool) *tls.Config {
		return &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure}
	}
	for address, want := range map[string]redis.Options{
		"redis://":                      {Network: "tcp", Address: "localhost:6379"},
		"redis://me:p%40ss@h:1/3":       {Network: "tcp", Address: "h:1", Username: "me", Password: "p@ss", DB: 3},
		"redis://:word@[::1]/":          {Network: "tcp", Address: "[::1]:6379", Password: "word"},
		"rediss://h:6380/2":             {Network: "tcp", Address: "h:6380", DB: 2, TLS: withTLS("h", false)},
		"rediss://h?skip_verify=true":   {Network: "tcp", Address: "h:6379", TLS: withTLS("h", true)},
		"unix:///run/redis.sock?db=1":   {Network: "unix", Address: "/run/redis.sock", DB: 1},
		"unix://me:word@/run/r.sock":    {Network: "unix", Address: "/run/r.sock", Username: "me", Password: "word"},
		"redis://h?pool_size=3&db=4":    {Network: "tcp", Address: "h:6379", PoolSize: 3, DB: 4},
		"redis://h?dial_timeout=1":      {Network: "tcp", Address: "h:6379", ConnectTimeout: time.Second},
		"redis://h/?read_timeout=250ms": {Network: "tcp", Address: "h:6379", ReadTimeout: 250 * time.Millisecond},
		"redis://h/?write_timeout=2m":   {Network: "tcp", Address: "h:6379", WriteTimeout: 2 * time.Minute},
	} {
		got, err := redis.ParseURL(address)
		require.NoError(t, err, address)
		require.Equal(t, want, *got, address)
	}
	for address, message := range map[string]string{
		"h:6379":                    "redis: invalid URL scheme: h",
		"redis://me:secret/1@h":     "malformed URL",
		"redis://h/1/2":             `redis: invalid database number: "1/2"`,
		"unix://":                   "redis: empty unix socket path",
		"redis://h?master_name=m":   "redis: unexpected option: master_name",
		"redis://h?skip_verify=1":   "redis: unexpected option: skip_verify",
		"redis://h?pool_size=-1":    `redis: invalid pool_size: "-1"`,
		"redis://h?read_timeout=-1": `redis: invalid read_timeout: "-1"`,
	} {
		_, err := redis.ParseURL(address)
		require.EqualError(t, err, message, address)
	}
}

func open(t *testing.T, o redis.Options) *redis.Client {
	t.Helper()
	c := redis.New(o)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestTLSAndPassword(t *testing.T) {
	web := httptest.NewTLSServer(nil) // only for its certificate
	defer web.Close()
	server, err := miniredis.RunTLS(&tls.Config{Certificates: web.TLS.Certificates})
	require.NoError(t, err)
	defer server.Close()
	server.RequireUserAuth("me", "word")
	o, err := redis.ParseURL("rediss://me:word@" + server.Addr() + "/2")
	require.NoError(t, err)
	_, err = open(t, *o).Do(t.Context(), "PING")
	require.ErrorContains(t, err, "certificate")
	o.TLS.InsecureSkipVerify = true
	_, err = open(t, *o).Do(t.Context(), "SET", "k", "v")
	require.NoError(t, err)
	require.Equal(t, []string{"k"}, server.DB(2).Keys())
	o.Password = "other"
	_, err = open(t, *o).Do(t.Context(), "PING")
	require.True(t, redis.HasErrorPrefix(err, "WRONGPASS"), "%v", err)
}

func TestScripts(t *testing.T) {
	server := miniredis.RunT(t)
	c := open(t, redis.Options{Address: server.Addr()})
	for range 2 { // the first run sends the script, the second its hash
		got, err := redis.Strings(c.Run(t.Context(), "return {KEYS[1], ARGV[1], ARGV[2]}", []string{"k"}, []byte("a"), 7))
		require.NoError(t, err)
		require.Equal(t, []string{"k", "a", "7"}, got)
	}
	_, err := c.Run(t.Context(), "return redis.error_reply('WRONGTYPE no')", nil)
	require.True(t, redis.HasErrorPrefix(err, "WRONGTYPE"), "%v", err)
	_, err = redis.String(c.Do(t.Context(), "GET", "none"))
	require.ErrorIs(t, err, redis.ErrNil)
}

// The pool is bounded, a wait ends with its context, and a connection that the server has closed is replaced.
func TestPool(t *testing.T) {
	server := miniredis.RunT(t)
	dialed := 0
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed++
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	c := open(t, redis.Options{
		Address: server.Addr(), PoolSize: 1, ConnectTimeout: 50 * time.Millisecond, TestAfter: time.Nanosecond, Dial: dial,
	})
	waiting := make(chan error)
	go func() {
		_, err := redis.String(c.Wait(context.Background(), time.Second, "BLMOVE", "a", "b", "LEFT", "LEFT", 1))
		waiting <- err
	}()
	require.Eventually(t, func() bool { _, err := c.Do(t.Context(), "PING"); return err != nil }, 5*time.Second, time.Millisecond, "no connection is free")
	require.ErrorIs(t, <-waiting, redis.ErrNil)
	_, err := c.Do(t.Context(), "PING")
	require.NoError(t, err)
	require.Equal(t, 1, dialed)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err = c.Wait(ctx, time.Hour, "BLMOVE", "a", "b", "LEFT", "LEFT", 0)
	require.Error(t, err)
	require.Less(t, time.Since(start), 5*time.Second)
	_, err = c.Do(ctx, "PING")
	require.ErrorIs(t, err, context.DeadlineExceeded)

	_, err = c.Do(t.Context(), "PING")
	require.NoError(t, err, "the broken connection is not used again")
	server.Close()
	require.NoError(t, server.Restart())
	_, err = c.Do(t.Context(), "PING")
	require.NoError(t, err)
}
