package blob

import (
	"encoding/hex"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

const scheme = "cas://sha256:"

const digestLen = 64

// ParseRef returns the digest of a reference cas://sha256:<digest>: 64 lower-case hex digits. The error for any other text is [agent.CodeInvalid].
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

const s3Scheme = "s3://"

// S3Ref returns the address of a reference's object, s3://<bucket>/<key>, which [Store.Open] accepts. It is empty if the bucket is not in S3, or for a
// malformed reference.
func (s *Store) S3Ref(tenant, ref string) string {
	digest, err := ParseRef(ref)
	if err != nil || s.s3 == "" {
		return ""
	}
	return s.s3 + objectKey(tenant, digest)
}

// digestOf returns the digest of a reference, or of an address from S3Ref for the same tenant.
func (s *Store) digestOf(tenant, ref string) (string, error) {
	if s.s3 == "" || !strings.HasPrefix(ref, s3Scheme) {
		return ParseRef(ref)
	}
	path, ok := strings.CutPrefix(ref, s.s3+tenant+"/sha256/")
	if !ok {
		return "", agent.Invalid("ref", "%.200q is not content of this tenant in %s", ref, s.s3)
	}
	return ParseRef(scheme + strings.Replace(path, "/", "", 1))
}

func makeRef(sum []byte) string { return scheme + hex.EncodeToString(sum) }

func objectKey(tenant, digest string) string {
	return tenant + "/sha256/" + digest[:2] + "/" + digest[2:]
}

// checkTenant returns an error if a tenant's name is not valid as a folder's name.
func checkTenant(tenant string) error {
	if !agent.ValidName(tenant) || strings.Trim(tenant, ".") == "" {
		return agent.Invalid("tenant", "want 1 to 128 of A-Z a-z 0-9 . _ -, and not dots alone, got %.150q", tenant)
	}
	return nil
}
