package codec

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	keyBytes = 32
	maxKeys  = 64
)

var keyIDPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Keyring has keys by their ids. The current key encrypts, all keys decrypt. Its methods may be called from any goroutine.
type Keyring struct {
	current string
	ciphers map[string]cipher.AEAD
}

// ParseKeys returns a keyring of keys in the form "id:key", where key is 32 bytes in base64 or hex. The first key is the current one. Errors contain the
// position and never the key.
func ParseKeys(keys []string) (*Keyring, error) {
	switch {
	case len(keys) == 0:
		return nil, agent.Invalid("keys", "want at least one")
	case len(keys) > maxKeys:
		return nil, agent.Invalid("keys", "want at most %d, got %d", maxKeys, len(keys))
	}
	ring := &Keyring{ciphers: make(map[string]cipher.AEAD, len(keys))}
	for i, entry := range keys {
		field := fmt.Sprintf("keys[%d]", i)
		id, text, ok := strings.Cut(strings.TrimSpace(entry), ":")
		switch {
		case !ok:
			return nil, agent.Invalid(field, "want id:key") // the text may be the key
		case !keyIDPattern.MatchString(id):
			return nil, agent.Invalid(field, "want an id of 1 to 64 of A-Z a-z 0-9 . _ - before the colon")
		case ring.ciphers[id] != nil:
			return nil, agent.Invalid(field, "the id %q is given twice", id)
		}
		key, err := decodeKey(text)
		if err != nil {
			return nil, agent.Invalid(field, "the key %q: %w", id, err)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, agent.Invalid(field, "the key %q: %w", id, err)
		}
		// The output is nonce, ciphertext and tag, as in Temporal's samples.
		if ring.ciphers[id], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, agent.Invalid(field, "the key %q: %w", id, err)
		}
		if i == 0 {
			ring.current = id
		}
	}
	return ring, nil
}

// ParseKeyList is [ParseKeys] for one text with all keys, separated by commas or line ends.
func ParseKeyList(text string) (*Keyring, error) {
	return ParseKeys(strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }))
}

// errKey is the error for an invalid key. It does not quote the text.
var errKey = errors.New("want 32 bytes in base64 or hex, such as the output of: openssl rand -base64 32")

func decodeKey(text string) ([]byte, error) {
	if len(text) == hex.EncodedLen(keyBytes) { // base64 of 32 bytes is shorter
		if key, err := hex.DecodeString(text); err == nil {
			return key, nil
		}
		return nil, errKey
	}
	text = strings.TrimRight(text, "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if key, err := encoding.DecodeString(text); err == nil && len(key) == keyBytes {
			return key, nil
		}
	}
	return nil, errKey
}
