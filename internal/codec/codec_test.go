package codec_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/codec"
)

// key returns a new key, in the form of the configuration and as bytes.
func key(t testing.TB, id string) (text string, bytes []byte) {
	t.Helper()
	bytes = make([]byte, 32)
	_, err := rand.Read(bytes)
	require.NoError(t, err)
	return id + ":" + base64.StdEncoding.EncodeToString(bytes), bytes
}

func ring(t testing.TB, keys ...string) *codec.Keyring {
	t.Helper()
	k, err := codec.ParseKeys(keys)
	require.NoError(t, err)
	return k
}

func payload(t testing.TB, v any) *commonpb.Payload {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(v)
	require.NoError(t, err)
	return p
}

func same(t testing.TB, want, got *commonpb.Payload) {
	t.Helper()
	require.True(t, proto.Equal(want, got), "want %v, got %v", want, got)
}

func TestParseKeys(t *testing.T) {
	text, bytes := key(t, "one")
	other, _ := key(t, "two")
	unpadded := strings.TrimRight(other, "=")
	for _, keys := range [][]string{
		{text},
		{"one:" + hex.EncodeToString(bytes)},
		{"one:" + strings.ToUpper(hex.EncodeToString(bytes))},
		{"one:" + base64.RawURLEncoding.EncodeToString(bytes)},
		{" " + text + "\n", unpadded},
	} {
		sealed, err := ring(t, keys...).Encode([]*commonpb.Payload{payload(t, "x")})
		require.NoError(t, err)
		require.Equal(t, "one", string(sealed[0].GetMetadata()["encryption-key-id"]), "the first key encrypts")
		opened, err := ring(t, text).Decode(sealed)
		require.NoError(t, err, "the same key in another spelling")
		same(t, payload(t, "x"), opened[0])
	}
	secret := base64.StdEncoding.EncodeToString(bytes)
	for name, keys := range map[string][]string{
		"none": nil, "no id": {":" + secret}, "no colon": {secret}, "bad id": {"a b:" + secret}, "long id": {strings.Repeat("a", 65) + ":" + secret},
		"short": {"one:" + secret[:40]}, "no key": {"one:"}, "not hex": {"one:" + strings.Repeat("zz", 32)}, "long": {"one:" + secret + secret},
		"twice": {text, other, text}, "too many": make([]string, 65),
	} {
		_, err := codec.ParseKeys(keys)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), name)
		require.Contains(t, err.Error(), "keys", name)
		require.NotContains(t, err.Error(), secret[:16], name)
	}
	_, err := codec.ParseKeys([]string{text, other, "bad"})
	require.ErrorContains(t, err, "keys[2]")

	list, err := codec.ParseKeyList(text + ", " + other + "\n")
	require.NoError(t, err)
	require.Equal(t, ring(t, text, other), list)
	_, err = codec.ParseKeyList("")
	require.Error(t, err)
}

func TestEncrypt(t *testing.T) {
	text, _ := key(t, "one")
	k := ring(t, text)
	p := payload(t, "the secret")
	kept := proto.CloneOf(p)
	first, err := k.Encode([]*commonpb.Payload{p, nil, {}})
	require.NoError(t, err)
	second, err := k.Encode([]*commonpb.Payload{p})
	require.NoError(t, err)
	same(t, kept, p) // not changed
	require.NotContains(t, first[0].String(), "secret")
	require.NotContains(t, first[0].String(), "json", "the encoding is encrypted too")
	require.NotEqual(t, first[0].GetData(), second[0].GetData(), "each payload has its own nonce")
	require.Nil(t, first[1])
	opened, err := k.Decode(first)
	require.NoError(t, err)
	same(t, p, opened[0])
	require.Nil(t, opened[1])
	same(t, &commonpb.Payload{}, opened[2])
}

// The format is that of Temporal's samples, which this test implements.
func TestSampleFormat(t *testing.T) {
	text, bytes := key(t, "sample-key")
	block, err := aes.NewCipher(bytes)
	require.NoError(t, err)
	gcm, err := cipher.NewGCM(block)
	require.NoError(t, err)

	p := payload(t, map[string]any{"agent": "analyst"})
	plain, err := proto.Marshal(p)
	require.NoError(t, err)
	nonce := make([]byte, gcm.NonceSize())
	_, err = rand.Read(nonce)
	require.NoError(t, err)
	theirs := &commonpb.Payload{
		Metadata: map[string][]byte{"encoding": []byte("binary/encrypted"), "encryption-key-id": []byte("sample-key")},
		Data:     gcm.Seal(nonce, nonce, plain, nil),
	}
	opened, err := ring(t, text).Decode([]*commonpb.Payload{theirs})
	require.NoError(t, err)
	same(t, p, opened[0])

	ours, err := ring(t, text).Encode([]*commonpb.Payload{p})
	require.NoError(t, err)
	require.Equal(t, theirs.GetMetadata(), ours[0].GetMetadata())
	data := ours[0].GetData()
	plain, err = gcm.Open(nil, data[:gcm.NonceSize()], data[gcm.NonceSize():], nil)
	require.NoError(t, err)
	read := &commonpb.Payload{}
	require.NoError(t, proto.Unmarshal(plain, read))
	same(t, p, read)
}

func TestRotation(t *testing.T) {
	older, _ := key(t, "2025")
	newer, _ := key(t, "2026")
	p := []*commonpb.Payload{payload(t, "before"), payload(t, "plain")}
	sealed, err := ring(t, older).Encode(p[:1])
	require.NoError(t, err)
	mixed := append(sealed, p[1]) //nolint:gocritic // a history that was begun without keys

	rotated := ring(t, newer, older)
	opened, err := rotated.Decode(mixed)
	require.NoError(t, err)
	same(t, p[0], opened[0])
	same(t, p[1], opened[1])
	again, err := rotated.Encode(p[:1])
	require.NoError(t, err)
	require.Equal(t, "2026", string(again[0].GetMetadata()["encryption-key-id"]))

	_, err = ring(t, newer).Decode(sealed)
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "another process may have it: %v", err)
	require.ErrorContains(t, err, `"2025"`)
}

func TestTampering(t *testing.T) {
	text, _ := key(t, "one")
	k := ring(t, text)
	sealed, err := k.Encode([]*commonpb.Payload{payload(t, "secret")})
	require.NoError(t, err)
	change := func(with func(p *commonpb.Payload)) []*commonpb.Payload {
		p := proto.CloneOf(sealed[0])
		with(p)
		return []*commonpb.Payload{p}
	}
	for i := range sealed[0].GetData() {
		_, err := k.Decode(change(func(p *commonpb.Payload) { p.Data[i] ^= 1 }))
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "byte %d", i)
	}
	for n := range 30 {
		_, err := k.Decode(change(func(p *commonpb.Payload) { p.Data = p.GetData()[:n] }))
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%d bytes", n)
	}
	impostor, _ := key(t, "one")
	_, err = ring(t, impostor).Decode(sealed)
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "another key under the same id")
	_, err = k.Decode(change(func(p *commonpb.Payload) { delete(p.GetMetadata(), "encryption-key-id") }))
	require.Error(t, err)
}

func FuzzDecode(f *testing.F) {
	text, bytes := key(f, "one")
	k := ring(f, text)
	sealed, err := k.Encode([]*commonpb.Payload{payload(f, "seed")})
	require.NoError(f, err)
	f.Add([]byte("binary/encrypted"), []byte("one"), sealed[0].GetData(), false)
	f.Add([]byte("json/plain"), []byte(""), []byte(`"x"`), false)
	f.Add([]byte("json/plain"), []byte(""), []byte{0xff, 0xff}, true)
	block, err := aes.NewCipher(bytes)
	require.NoError(f, err)
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, encoding, id, data []byte, seal bool) {
		if seal { // content that another owner of the key may have encrypted
			encoding, id, data = []byte("binary/encrypted"), []byte("one"), gcm.Seal(nil, nil, data, nil)
		}
		p := &commonpb.Payload{Metadata: map[string][]byte{"encoding": encoding, "encryption-key-id": id}, Data: data}
		opened, err := k.Decode([]*commonpb.Payload{p})
		switch {
		case err != nil:
			require.Contains(t, []agent.Code{agent.CodeInvalid, agent.CodeUnavailable}, agent.CodeOf(err))
		case string(encoding) != "binary/encrypted":
			same(t, p, opened[0])
		default:
			again, err := k.Encode(opened)
			require.NoError(t, err)
			back, err := k.Decode(again)
			require.NoError(t, err)
			same(t, opened[0], back[0])
		}
	})
}

// memoryObjects stores objects in memory.
type memoryObjects struct {
	mu           sync.Mutex
	objects      map[string][]byte
	fault        error    // if not nil, the error of every call
	calls        []string // keys of all calls
	hadDeadlines bool     // whether every call had a deadline
}

func newObjects() *memoryObjects {
	return &memoryObjects{objects: map[string][]byte{}, hadDeadlines: true}
}

func (s *memoryObjects) Put(ctx context.Context, key string, content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recordCall(ctx, key)
	if s.fault == nil {
		s.objects[key] = content
	}
	return s.fault
}

func (s *memoryObjects) Get(ctx context.Context, key string, maxBytes int64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recordCall(ctx, key)
	content, ok := s.objects[key]
	switch {
	case s.fault != nil:
		return nil, s.fault
	case !ok:
		return nil, agent.Errorf(agent.CodeNotFound, "get", "no object %s", key)
	case int64(len(content)) > maxBytes:
		return nil, agent.Errorf(agent.CodeOverflow, "get", "more than %d bytes", maxBytes)
	}
	return content, nil
}

func (s *memoryObjects) recordCall(ctx context.Context, key string) {
	s.calls = append(s.calls, key)
	_, ok := ctx.Deadline()
	s.hadDeadlines = s.hadDeadlines && ok
}

func (s *memoryObjects) keys() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.objects {
		keys = append(keys, k)
	}
	return keys
}

// noon is the time in all tests.
func noon() time.Time { return time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC) }

func open(t testing.TB, cfg codec.Config) *codec.Codec {
	t.Helper()
	cfg.Now = noon
	c, err := codec.New(cfg)
	require.NoError(t, err)
	return c
}

func TestConfig(t *testing.T) {
	c := open(t, codec.Config{})
	require.False(t, c.On())
	require.False(t, c.Stores())
	require.Empty(t, c.Storage().Drivers)
	require.Equal(t, converter.GetDefaultDataConverter(), c.Data(), "without a configuration, payloads are not changed")

	_, err := codec.New(codec.Config{Keys: &codec.Keyring{}})
	require.Error(t, err)
	for _, cfg := range []codec.Config{{Threshold: -1}, {MaxBytes: -1}, {Threshold: 100, MaxBytes: 10}} {
		cfg.Objects = newObjects()
		_, err := codec.New(cfg)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
	c = open(t, codec.Config{Objects: newObjects()})
	require.True(t, c.On())
	require.Equal(t, 256<<10, c.Storage().PayloadSizeThreshold)
}
