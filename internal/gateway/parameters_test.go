package gateway

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestPagesOfDoors(t *testing.T) {
	for query, want := range map[string]any{
		"":                          agent.Page{Size: 50},
		"?tenant=acme":              agent.Page{Size: 50},
		"?page_size=0&page_token=x": agent.Page{Size: 50, Token: "x"},
		"?page_size=500":            agent.Page{Size: 500},
		"?page_size=501":            "page_size: want 0 to 500",
		"?page_size=-1":             "page_size: want a whole number",
		"?page_size=1.5":            "page_size: want a whole number",
		"?page_token=" + strings.Repeat("x", 4097): "page_token: is 4097 bytes, at most 4096",
		"?page_size=1&page_size=1":                 "page_size: is given 2 times",
		"?tenant=a&tenant=b":                       "tenant: is given 2 times",
		"?pagesize=1":                              "pagesize: is no parameter of this path: it takes page_size, page_token, tenant",
		"?page_size=%zz":                           "malformed query",
		"?" + strings.Repeat("x", 5000):            strings.Repeat("x", 256) + "…: is no parameter of this path",
		"?page_token=" + strings.Repeat("x", 4096): agent.Page{Size: 50, Token: strings.Repeat("x", 4096)},
		"?page_size=7&page_token=&tenant=%20":      agent.Page{Size: 7},
	} {
		q := readQuery(httptest.NewRequestWithContext(t.Context(), "GET", "/v1/links"+query, nil))
		q.single("tenant")
		page, err := q.pageWithin(50, 500), q.validate()
		words, refused := want.(string)
		if !refused {
			require.NoError(t, err, query)
			require.Equal(t, want, page, query)
			continue
		}
		e, ok := errors.AsType[*agent.Error](err)
		require.True(t, ok, query)
		require.Equal(t, agent.CodeInvalid, e.Code)
		require.ErrorContains(t, err, words)
	}
}
