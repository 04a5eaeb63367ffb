package credentials

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"hash/crc32"
	"strings"

	"github.com/turnstone-run/turnstone/internal/access"
)

// A key is tsk_<id>_<secret><checksum>: 16 characters by which it is found, 43 of 256 random bits, and 6 that tell a mistyped or cut key
// without a look into the store. All are letters and digits, so that a double click selects the whole.
const (
	idLen       = 16
	secretLen   = 43
	checksumLen = 6
	keyLen      = len(access.KeyPrefix) + idLen + 1 + secretLen + checksumLen

	idDigits = "abcdefghijklmnopqrstuvwxyz234567"
	digits   = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

//nolint:gochecknoglobals // a constant in all but syntax
var idEncoding = base32.NewEncoding(idDigits).WithPadding(base32.NoPadding)

// generateKey makes a new key.
func generateKey() (id, key string) {
	raw := make([]byte, idEncoding.DecodedLen(idLen))
	_, _ = rand.Read(raw) // it never fails
	id = idEncoding.EncodeToString(raw)
	key = access.KeyPrefix + id + "_" + randomDigits(secretLen)
	return id, key + keyChecksum(key)
}

// randomDigits returns n digits, each as likely as any other: bytes that would favour some are thrown away.
func randomDigits(n int) string {
	const fair = 256 - 256%len(digits)
	out := make([]byte, 0, n)
	buf := make([]byte, 2*n)
	for len(out) < n {
		_, _ = rand.Read(buf)
		for _, b := range buf {
			if int(b) < fair && len(out) < n {
				out = append(out, digits[int(b)%len(digits)])
			}
		}
	}
	return string(out)
}

// parseKey checks the shape of a key and returns its id.
func parseKey(key string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(key, access.KeyPrefix)
	if !ok || len(key) != keyLen || rest[idLen] != '_' {
		return "", false
	}
	id = rest[:idLen]
	if !validKeyID(id) || strings.Trim(rest[idLen+1:], digits) != "" {
		return "", false
	}
	body := key[:keyLen-checksumLen]
	return id, keyChecksum(body) == key[keyLen-checksumLen:]
}

// keyChecksum is no secret: anyone can make a key whose shape is right.
func keyChecksum(body string) string {
	n := crc32.ChecksumIEEE([]byte(body))
	out := [checksumLen]byte{}
	for i := checksumLen - 1; i >= 0; i-- {
		out[i] = digits[n%uint32(len(digits))]
		n /= uint32(len(digits))
	}
	return string(out[:])
}

// hashKey returns the hash under which a key is stored. A fast hash is enough, because 256 random bits cannot be guessed. A slow one would
// let callers waste our processor time.
func hashKey(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}
