package credentials

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"strings"

	"github.com/turnstone-run/turnstone/internal/access"
)

// A key is tsk_<id>_<secret><checksum>: 16 characters by which it is found, 43 with 256 random bits, and 6 that reveal a mistyped or cut key
// without a query. All are letters and digits, so that a double click selects the whole key.
const (
	idLen       = 16
	secretLen   = 43
	checksumLen = 6
	keyLen      = len(access.KeyPrefix) + idLen + 1 + secretLen + checksumLen

	idDigits = "abcdefghijklmnopqrstuvwxyz234567"
	digits   = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// generateKey makes a new key.
func generateKey() (id, key string) {
	id = strings.ToLower(rand.Text()[:idLen]) // 5 random bits a character
	key = access.KeyPrefix + id + "_" + randomDigits(secretLen)
	return id, key + keyChecksum(key)
}

// randomDigits returns n random digits. Bytes that would make some digits likelier than others are skipped.
func randomDigits(n int) string {
	const fair = 256 - 256%len(digits)
	out := make([]byte, 0, n)
	buf := make([]byte, 2*n)
	for len(out) < n {
		_, _ = rand.Read(buf) // never fails
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

// keyChecksum returns the last characters of a key whose others are body. It is no secret: anyone can make a well-formed key.
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
