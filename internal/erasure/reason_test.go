package erasure_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
)

// A reason may contain the letters of a user's id within other words, but not the id. Ids may have 1,024 bytes.
func TestReasonMustNotNameUser(t *testing.T) {
	for user, texts := range map[string][2]string{
		"a":    {"asked by mail; grant a.b, a-1, b@a", "asked by a."},
		"11":   {"ticket 4711, 2011-11-22 of 0.11", "user/11"},
		"ann":  {"joann, ann-2, ann.lee and annex", "for (ann), who asked"},
		"é":    {"éa", "sié é"},
		"(a":   {"x(b", "the (a"},
		"a b":  {"aa b", "the a b"},
		"a.":   {"a.b", "a."},
		"😀":    {"none", "one 😀"},
		"aXaX": {"aXaXaX", "aXa, aXaX"},
	} {
		r := erasure.Request{UserID: user, Reason: texts[0]}
		require.NoError(t, r.Validate(), "%q", user)
		r.Reason = texts[1]
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(r.Validate()), "%q", user)
	}
	r := erasure.Request{UserID: strings.Repeat("x", 1024), Reason: "ticket"}
	require.NoError(t, r.Validate())
	r.UserID += "x"
	require.Error(t, r.Validate())
}
