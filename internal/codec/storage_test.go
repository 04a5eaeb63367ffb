package codec_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/codec"
)

func storing(ctx context.Context) converter.StorageDriverStoreContext {
	return converter.StorageDriverStoreContext{Context: ctx}
}

func retrieving(ctx context.Context) converter.StorageDriverRetrieveContext {
	return converter.StorageDriverRetrieveContext{Context: ctx}
}

func TestStoreAndRetrieve(t *testing.T) {
	s := newObjects()
	d := open(t, codec.Config{Objects: s}).Storage().Drivers[0]
	large := []*commonpb.Payload{payload(t, strings.Repeat("a", 1<<20)), payload(t, strings.Repeat("b", 2<<20))}
	claims, err := d.Store(storing(t.Context()), large)
	require.NoError(t, err)
	require.Len(t, s.keys(), 2)
	for _, key := range s.keys() {
		require.Regexp(t, `^2026-08-03/[0-9a-f]{64}$`, key)
	}
	again, err := d.Store(storing(t.Context()), large)
	require.NoError(t, err)
	require.Equal(t, claims, again, "the same content has the same key")
	got, err := d.Retrieve(retrieving(t.Context()), claims)
	require.NoError(t, err)
	for i := range large {
		same(t, large[i], got[i])
	}
	require.True(t, s.hadDeadlines, "the driver sets a deadline, because the SDK does not")
}

func TestClaimsLeadToPayloadsOnly(t *testing.T) {
	s := newObjects()
	d := open(t, codec.Config{Objects: s}).Storage().Drivers[0]
	claims, err := d.Store(storing(t.Context()), []*commonpb.Payload{payload(t, "x")})
	require.NoError(t, err)
	good := claims[0].ClaimData
	hash := good["sha256"]
	calls := len(s.calls)
	for name, claim := range map[string]map[string]string{
		"none": nil, "no hash": {"key": good["key"]}, "no key": {"sha256": hash}, "short hash": {"key": good["key"], "sha256": hash[1:]},
		"another's":   {"key": "acme/sha256/ab/" + hash, "sha256": hash},
		"upwards":     {"key": "../" + good["key"], "sha256": hash},
		"behind":      {"key": good["key"] + "/..", "sha256": hash},
		"long hash":   {"key": good["key"], "sha256": "0" + hash},
		"longer hash": {"key": good["key"], "sha256": strings.Repeat("0", 100) + hash},
	} {
		_, err := d.Retrieve(retrieving(t.Context()), []converter.StorageDriverClaim{{ClaimData: claim}})
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), name)
	}
	require.Len(t, s.calls, calls, "the store is not called")

	s.objects[good["key"]] = []byte("changed")
	_, err = d.Retrieve(retrieving(t.Context()), claims)
	require.ErrorContains(t, err, "corrupted")
	s.fault = agent.Errorf(agent.CodeUnavailable, "get", "away")
	_, err = d.Retrieve(retrieving(t.Context()), claims)
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	_, err = d.Store(storing(t.Context()), []*commonpb.Payload{payload(t, "x")})
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
}

// counting is a limiter that counts its calls.
type counting[T any] struct{ n int }

func (c *counting[T]) Permit(_ context.Context, _ T, fn func() error) error {
	c.n++
	return fn()
}

func TestStorageLimits(t *testing.T) {
	s := newObjects()
	storage := open(t, codec.Config{Objects: s, Threshold: 100, MaxBytes: 1000}).Storage()
	require.Equal(t, 100, storage.PayloadSizeThreshold)
	d, err := storage.DriverSelector.SelectDriver(converter.StorageDriverSelectContext{}, payload(t, strings.Repeat("x", 500)))
	require.NoError(t, err)
	require.Equal(t, storage.Drivers[0], d)
	d, err = storage.DriverSelector.SelectDriver(converter.StorageDriverSelectContext{}, payload(t, strings.Repeat("x", 2000)))
	require.NoError(t, err)
	require.Nil(t, d, "too large for the store")

	puts, gets := &counting[*commonpb.Payload]{}, &counting[converter.StorageDriverClaim]{}
	claims, err := storage.Drivers[0].Store(converter.StorageDriverStoreContext{Context: t.Context(), Limiter: puts}, []*commonpb.Payload{payload(t, "x")})
	require.NoError(t, err)
	_, err = storage.Drivers[0].Retrieve(converter.StorageDriverRetrieveContext{Context: t.Context(), Limiter: gets}, claims)
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{puts.n, gets.n}, "the driver uses the SDK's limiters")
}

func TestStoredIsEncrypted(t *testing.T) {
	text, _ := key(t, "one")
	s := newObjects()
	c := open(t, codec.Config{Keys: ring(t, text), Objects: s})
	p, err := c.Data().ToPayload("a secret of " + strings.Repeat("x", 1<<20))
	require.NoError(t, err)
	_, err = c.Storage().Drivers[0].Store(storing(t.Context()), []*commonpb.Payload{p})
	require.NoError(t, err)
	require.NotContains(t, string(s.objects[s.keys()[0]]), "secret")
}

func TestFailuresAreEncrypted(t *testing.T) {
	text, _ := key(t, "one")
	c := open(t, codec.Config{Keys: ring(t, text)})
	f := c.Failures().ErrorToFailure(errors.New("the customer Ann Bee has no account"))
	wire, err := proto.Marshal(f)
	require.NoError(t, err)
	require.NotContains(t, string(wire), "Ann Bee")
	require.ErrorContains(t, c.Failures().FailureToError(f), "Ann Bee")

	open := open(t, codec.Config{})
	require.Contains(t, open.Failures().ErrorToFailure(errors.New("plain")).GetMessage(), "plain", "without keys, errors are not encrypted")
}
