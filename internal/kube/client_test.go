package kube

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadError tells an answer of the API from one of a proxy in front of it, and errors that a retry may mend from those that it cannot.
func TestReadError(t *testing.T) {
	for _, tt := range []struct {
		code          int
		body, message string
		final, exists bool
	}{
		{404, `{"kind":"Status","reason":"NotFound","code":404,"message":"jobs \"j\" not found"}`, `jobs "j" not found`, true, false},
		{409, `{"kind":"Status","reason":"AlreadyExists","message":"there"}`, "there", true, true},
		{409, `{"kind":"Status","reason":"Conflict"}`, "Conflict", true, false},
		{422, `{"kind":"Status"}`, "Unprocessable Entity", true, false},
		{429, `{"kind":"Status","reason":"TooManyRequests","message":"later"}`, "later", false, false},
		{500, `{"kind":"Status","reason":"InternalError","message":"etcd"}`, "etcd", false, false},
		{403, "<html>a proxy\xff", "403 Forbidden <html>a proxy", false, false},
		{502, `{"message":"a proxy"}`, `502 Bad Gateway {"message":"a proxy"}`, false, false},
	} {
		err := readError(&http.Response{
			StatusCode: tt.code, Status: strconv.Itoa(tt.code) + " " + http.StatusText(tt.code), Body: io.NopCloser(strings.NewReader(tt.body)),
		})
		require.EqualError(t, err, tt.message)
		require.True(t, hasCode(err, http.StatusTeapot, tt.code))
		require.False(t, hasCode(err, http.StatusTeapot))
		require.Equal(t, tt.final, isFinal(err), "%+v", tt)
		require.Equal(t, tt.exists, alreadyExists(err), "%+v", tt)
	}
}

func TestParseQuantity(t *testing.T) {
	maximum, err := parseQuantity("memory", "1Gi")
	require.NoError(t, err)
	for text, ok := range map[string]bool{
		"1Gi": true, "1024Mi": true, "1073741824": true, "1.0Gi": true, "+1e9": true, "1E9": true, ".5G": true, "1073741824000m": true, "7n": true,
		"1025Mi": false, "1073741825": false, "2G": false, "1E": false, "1e99": false, "1073741824001m": false, "1Ti": false, "9e18": false,
	} {
		_, err := requestedQuantity("memory", text, maximum)
		require.Equal(t, ok, err == nil, "%s: %v", text, err)
	}
	for _, text := range []string{"", "1 Gi", "1gi", "1K", "1/2", "0x1", "1e999", "1_0", "Gi", ".", "--1", "1Gi\n", "-1", "0", "0.0Gi"} {
		_, err := parseQuantity("memory", text)
		require.Error(t, err, text)
	}
}
