package inbox_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/inbox"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// shelf is a store with one result, of turn t1 of acme, and the rows behind references.
type shelf struct {
	inbox.Store

	asked []string // tenant and reference of what was opened
}

const resultID = "5d6f29ab-3824-49a4-bc98-d659c557b032"

func (s *shelf) Result(_ context.Context, tenant, ref string) (postgres.ResultRow, error) {
	known := ref == "t1" || ref == "nightly 7" || ref == resultID || ref == "artifact://"+resultID
	if !known || (tenant != gateway.AnyTenant && tenant != "acme") {
		return postgres.ResultRow{}, agent.Errorf(agent.CodeNotFound, "", "%q is not known", ref)
	}
	return postgres.ResultRow{ResultID: resultID, Tenant: "acme", TurnID: "t1"}, nil
}

func (s *shelf) ResultMetadata(_ context.Context, tenant string, id agent.TurnID) (agent.ResultMetadata, error) {
	return agent.ResultMetadata{JobID: tenant + "/" + string(id)}, nil
}

func (s *shelf) Open(_ context.Context, tenant, ref string) (io.ReadCloser, error) {
	s.asked = append(s.asked, tenant+" "+ref)
	if ref == "cas://gone" {
		return nil, errors.New("gone")
	}
	return io.NopCloser(strings.NewReader("[]")), nil
}

func TestDataset(t *testing.T) {
	cases := map[string]struct {
		tenant, ref string
		opened      string
		code        agent.Code
	}{
		"by turn":             {"acme", "t1", "acme artifact://" + resultID, ""},
		"by job":              {"acme", "nightly 7", "acme artifact://" + resultID, ""},
		"by result id":        {"acme", resultID, "acme artifact://" + resultID, ""},
		"by reference":        {"acme", "artifact://" + resultID, "acme artifact://" + resultID, ""},
		"whosesoever":         {gateway.AnyTenant, "t1", "acme artifact://" + resultID, ""},
		"foreign":             {"other", "t1", "", agent.CodeNotFound},
		"unknown":             {"acme", "t2", "", agent.CodeNotFound},
		"content":             {"acme", "cas://sha256:00", "acme cas://sha256:00", ""},
		"content, of nobody":  {gateway.AnyTenant, "cas://sha256:00", "default cas://sha256:00", ""},
		"content, not opened": {"acme", "cas://gone", "acme cas://gone", agent.CodeInternal},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := &shelf{}
			b := inbox.New(inbox.Config{Store: s, Results: s})
			body, err := b.Dataset(t.Context(), c.tenant, c.ref)
			require.Equal(t, c.code, agent.CodeOf(err), "%v", err)
			require.Equal(t, c.opened, strings.Join(s.asked, ", "))
			require.Equal(t, c.code == "", body != nil)
		})
	}
	m, err := inbox.New(inbox.Config{Store: &shelf{}}).ResultMetadata(t.Context(), "acme", "t1")
	require.NoError(t, err)
	require.Equal(t, "acme/t1", m.JobID)
}
