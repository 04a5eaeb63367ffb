package blob

import (
	"encoding/hex"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

const scheme = "cas://sha256:"

const digestLen = 64

// ParseRef returns the digest of a reference, 64 lower-case hex digits. Anything but cas://sha256:<digest> is
// [agent.CodeInvalid].
func ParseRef(ref string) (digest string, err error) {
	digest, ok := strings.CutPrefix(ref, scheme)
	if !ok {
		return "", agent.Invalid("ref", "%.100q does not begin with %s", ref, scheme)
	}
	if len(digest) != digestLen {
		return "", agent.Invalid("ref", "want %d hex digits after %s, got %d bytes", digestLen, scheme, len(digest))
	}
	if strings.Trim(digest, "0123456789abcdef") != "" {
		return "", agent.Invalid("ref", "%q are not %d lower-case hex digits", digest, digestLen)
	}
	return digest, nil
}

func makeRef(sum []byte) string { return scheme + hex.EncodeToString(sum) }

func objectKey(tenant, digest string) string {
	return tenant + "/sha256/" + digest[:2] + "/" + digest[2:]
}

// checkTenant keeps a tenant's name within its folder.
func checkTenant(tenant string) error {
	if !agent.ValidName(tenant) || strings.Trim(tenant, ".") == "" {
		return agent.Invalid("tenant", "want 1 to 128 of A-Z a-z 0-9 . _ -, and not dots alone, got %.150q", tenant)
	}
	return nil
}
