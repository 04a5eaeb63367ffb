package blob_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// An object in S3 has an address, by which its tenant can open it from its bucket.
func TestS3Ref(t *testing.T) {
	dir := t.TempDir()
	files := open(t, "file://"+dir)
	ref := put(t, files, "acme", []byte("rows"))
	require.Empty(t, files.S3Ref("acme", ref), "the store is not in S3")

	bucket := httptest.NewServer(http.StripPrefix("/results/", http.FileServer(http.Dir(dir))))
	defer bucket.Close()
	query := url.Values{"region": {"eu-central-1"}, "endpoint": {bucket.URL}, "use_path_style": {"true"}, "anonymous": {"true"}}
	for prefix, exists := range map[string]bool{"": true, "team/a/": false} {
		if query.Del("prefix"); prefix != "" {
			query.Set("prefix", prefix)
		}
		s := open(t, "s3://results?"+query.Encode())
		address := s.S3Ref("acme", ref)
		digest := strings.TrimPrefix(ref, "cas://sha256:")
		require.Equal(t, "s3://results/"+prefix+"acme/sha256/"+digest[:2]+"/"+digest[2:], address)
		require.Empty(t, s.S3Ref("acme", "cas://sha256:00"))

		content, err := get(t.Context(), s, "acme", address)
		if !exists { // the server has no such folder
			require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "%v", err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "rows", string(content))
		for _, wrong := range []string{
			strings.Replace(address, "results", "others", 1), strings.Replace(address, "acme", "evil", 1), address + "0", "s3://results/", "s3://",
			strings.Replace(address, "acme", "acme/../evil", 1),
		} {
			_, err := s.Open(t.Context(), "acme", wrong)
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%s: %v", wrong, err)
		}
		_, err = s.Open(t.Context(), "evil", address)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%v", err)
	}
	_, err := files.Open(t.Context(), "acme", "s3://results/acme/sha256/00/00")
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%v", err)
}
