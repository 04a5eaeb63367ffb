package codec_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/codec"
)

func body(t testing.TB, payloads ...*commonpb.Payload) []byte {
	t.Helper()
	b, err := protojson.Marshal(&commonpb.Payloads{Payloads: payloads})
	require.NoError(t, err)
	return b
}

func read(t testing.TB, answer []byte) []*commonpb.Payload {
	t.Helper()
	var p commonpb.Payloads
	require.NoError(t, protojson.Unmarshal(answer, &p))
	return p.GetPayloads()
}

// referenceTo stores a payload and returns the reference by which the SDK replaces it.
func referenceTo(t testing.TB, c *codec.Codec, p *commonpb.Payload, driver string) *commonpb.Payload {
	t.Helper()
	claims, err := c.Storage().Drivers[0].Store(storing(t.Context()), []*commonpb.Payload{p})
	require.NoError(t, err)
	data, err := protojson.Marshal(&sdkpb.ExternalStorageReference{DriverName: driver, ClaimData: claims[0].ClaimData})
	require.NoError(t, err)
	return &commonpb.Payload{
		Metadata: map[string][]byte{"encoding": []byte("json/protobuf"), "messageType": []byte("temporal.api.sdk.v1.ExternalStorageReference")},
		Data:     data, ExternalPayloads: []*commonpb.Payload_ExternalPayloadDetails{{SizeBytes: 7}},
	}
}

func TestRemote(t *testing.T) {
	text, _ := key(t, "one")
	s := newObjects()
	c := open(t, codec.Config{Keys: ring(t, text), Objects: s})
	require.True(t, c.Stores())
	plain, word := payload(t, strings.Repeat("x", 1<<20)), payload(t, "word")

	answer, err := c.EncodeJSON(t.Context(), body(t, plain, word))
	require.NoError(t, err)
	sealed := read(t, answer)
	require.Equal(t, "binary/encrypted", string(sealed[1].GetMetadata()["encoding"]))
	ref := referenceTo(t, c, sealed[0], "turnstone")

	answer, err = c.DecodeJSON(t.Context(), body(t, ref, sealed[1], word), false)
	require.NoError(t, err)
	got := read(t, answer)
	same(t, plain, got[0])
	same(t, word, got[1])
	same(t, word, got[2])

	answer, err = c.DecodeJSON(t.Context(), body(t, ref, sealed[1]), true)
	require.NoError(t, err)
	got = read(t, answer)
	same(t, ref, got[0]) // kept
	same(t, word, got[1])

	answer, err = c.DownloadJSON(t.Context(), body(t, ref))
	require.NoError(t, err)
	same(t, plain, read(t, answer)[0])
	_, err = c.DownloadJSON(t.Context(), body(t, ref, word))
	require.ErrorContains(t, err, "payloads[1]")

	answer, err = c.EncodeJSON(t.Context(), body(t, ref))
	require.NoError(t, err)
	same(t, ref, read(t, answer)[0]) // a reference is no secret
}

func TestRemoteRefuses(t *testing.T) {
	text, _ := key(t, "one")
	foreign, _ := key(t, "theirs")
	s := newObjects()
	c := open(t, codec.Config{Keys: ring(t, text), Objects: s, MaxBytes: 1 << 20})
	word := payload(t, "word")
	theirs, err := ring(t, foreign).Encode([]*commonpb.Payload{word})
	require.NoError(t, err)
	ref := referenceTo(t, c, word, "turnstone")
	many := make([]*commonpb.Payload, 1001)
	refs := make([]*commonpb.Payload, 101)
	for i := range many {
		many[i] = word
	}
	for i := range refs {
		refs[i] = ref
	}
	for name, test := range map[string]struct {
		body    []byte
		code    agent.Code
		message string
	}{
		"not JSON":       {[]byte("{"), agent.CodeInvalid, "payloads"},
		"too many":       {body(t, many...), agent.CodeOverflow, "payloads"},
		"too many refs":  {body(t, refs...), agent.CodeOverflow, "payloads[100]"},
		"another key":    {body(t, word, theirs[0]), agent.CodeInvalid, `payloads[1]: decrypt payload: the encryption key "theirs"`},
		"another driver": {body(t, referenceTo(t, c, word, "s3")), agent.CodeInvalid, `"s3"`},
		"bad reference": {
			body(t, &commonpb.Payload{Metadata: ref.GetMetadata(), Data: []byte("secret")}), agent.CodeInvalid, "payloads[0]",
		},
	} {
		_, err := c.DecodeJSON(t.Context(), test.body, false)
		require.Equal(t, test.code, agent.CodeOf(err), name)
		require.ErrorContains(t, err, test.message, name)
		require.NotContains(t, err.Error(), "secret", name)
	}
	clear(s.objects)
	_, err = c.DownloadJSON(t.Context(), body(t, ref))
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "the Web UI would take status 404 for a codec without downloads")
	require.ErrorContains(t, err, "removed")

	bare := open(t, codec.Config{})
	_, err = bare.DecodeJSON(t.Context(), body(t, theirs[0]), true)
	require.ErrorContains(t, err, "no keys")
	_, err = bare.DecodeJSON(t.Context(), body(t, ref), false)
	require.ErrorContains(t, err, "no storage")
	answer, err := bare.EncodeJSON(t.Context(), body(t, word))
	require.NoError(t, err)
	same(t, word, read(t, answer)[0])
}

// Small references may refer to more payloads than one response may contain.
func TestRemoteFetchLimit(t *testing.T) {
	c := open(t, codec.Config{Objects: newObjects()})
	ref := referenceTo(t, c, payload(t, strings.Repeat("x", 24<<20)), "turnstone")
	_, err := c.DecodeJSON(t.Context(), body(t, ref, ref), false)
	require.NoError(t, err)
	_, err = c.DecodeJSON(t.Context(), body(t, ref, ref, ref), false)
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
	require.ErrorContains(t, err, "payloads[2]")
}

func FuzzRemote(f *testing.F) {
	text, _ := key(f, "one")
	c := open(f, codec.Config{Keys: ring(f, text), Objects: newObjects()})
	sealed, err := c.EncodeJSON(f.Context(), body(f, payload(f, "x")))
	require.NoError(f, err)
	f.Add(sealed)
	f.Add(body(f, referenceTo(f, c, payload(f, "x"), "turnstone")))
	f.Add([]byte(`{"payloads":[null,{"metadata":{},"data":""}]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, do := range []func() ([]byte, error){
			func() ([]byte, error) { return c.EncodeJSON(t.Context(), body) },
			func() ([]byte, error) { return c.DecodeJSON(t.Context(), body, false) },
			func() ([]byte, error) { return c.DecodeJSON(t.Context(), body, true) },
			func() ([]byte, error) { return c.DownloadJSON(t.Context(), body) },
		} {
			answer, err := do()
			if err != nil {
				require.NotEqual(t, agent.CodeInternal, agent.CodeOf(err), "%v", err)
				continue
			}
			require.True(t, json.Valid(answer))
		}
	})
}
