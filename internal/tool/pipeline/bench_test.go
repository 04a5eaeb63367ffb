package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline"
)

// flights returns a table of n rows of about 150 bytes.
func flights(n int) string {
	var b strings.Builder
	b.WriteString("[")
	for i := range n {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"id":%d,"airline":"%s","origin":"NYC","dest":"LAX","price":%d.%02d,"stops":%d,"departure":"2026-%02d-%02d 08:30:00","phone":"555-%04d"}`,
			i, []string{"Delta", "United", "JetBlue", "Alaska"}[i*31%4], 60+i*7919%900, i%100, i%3, 1+i%12, 1+i%28, i*17%10000)
	}
	b.WriteString("]")
	return b.String()
}

// carriers is the right side of a join with few rows.
const carriers = `[{"name":"Delta","alliance":"SkyTeam"},{"name":"United","alliance":"Star"},{"name":"Alaska","alliance":"oneworld"}]`

// seats returns the right side of a join with many rows: the free seats of every second flight.
func seats(n int) string {
	var b strings.Builder
	b.WriteString(`[{"id":0,"seats":1}`)
	for i := 2; i < n; i += 2 {
		fmt.Fprintf(&b, `,{"id":%d,"seats":%d}`, i, i%7)
	}
	b.WriteString("]")
	return b.String()
}

// discard is a blob store that discards new content.
type discard struct{ datasets }

func (discard) Put(_ context.Context, _ string, r io.Reader) (string, error) {
	_, err := io.Copy(io.Discard, r)
	return "cas://sha256:0", err
}

// upstream answers each request with the same body.
type upstream string

func (u upstream) Do(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(u))), Request: req,
	}, nil
}

// BenchmarkPrimitives runs each step alone over tables of growing size. Every result includes reading and storing the rows; "input_ref" measures
// only these.
func BenchmarkPrimitives(b *testing.B) {
	input := func(step string) string { return `"input_ref":"cas://x","pipeline":[` + step + `]` }
	steps := []struct{ name, args string }{
		{"input_ref", input(``)},
		{"http_request", `"pipeline":[{"step":"http_request","url":"https://api.example.com/flights"}]`},
		{"table_sort", input(`{"step":"table_sort","field":"price"}`)},
		{"table_sort_text", input(`{"step":"table_sort","fields":["airline","phone"],"order":"desc"}`)},
		{"table_filter", input(`{"step":"table_filter","condition":{"and":[{"field":"price","op":"<","value":500},{"field":"airline","op":"in","value":["Delta","United"]}]}}`)},
		{"table_select", input(`{"step":"table_select","fields":["id","airline","price as fare"]}`)},
		{"top_k", input(`{"step":"top_k","k":10}`)},
		{"groupby", input(`{"step":"groupby","by":["airline","stops"],"fields":["sum(price)","avg(price)","min(departure)","count()"]}`)},
		{"groupby_many", input(`{"step":"groupby","by":["id"],"agg":"sum","field":"price"}`)},
		{"join", input(`{"step":"join","right":"cas://carriers","on":"airline=name"}`)},
		{"join_many", input(`{"step":"join","right":"cas://seats","on":"id","how":"left"}`)},
		{"jq_transform", input(`{"step":"jq_transform","query":".[] | select(.price < 100)"}`)},
		{"regex_extract", input(`{"step":"regex_extract","pattern":"(?P<area>\\d{3})-(?P<line>\\d{4})","field":"phone"}`)},
		{"parse_date", input(`{"step":"parse_date","field":"departure","format":"%Y-%m-%d %H:%M:%S"}`)},
	}
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		data := flights(n)
		kit := pipeline.New(pipeline.Config{
			HTTP: upstream(data), Blobs: discard{},
			Datasets: datasets{"acme/cas://x": data, "acme/cas://carriers": carriers, "acme/cas://seats": seats(n)},
		})
		for _, s := range steps {
			b.Run(fmt.Sprintf("%s/%d", s.name, n), func(b *testing.B) {
				args := json.RawMessage(`{"session_id":"s",` + s.args + `}`)
				b.ReportAllocs()
				for b.Loop() {
					res, err := kit.Tools()[0].Call(b.Context(), agent.Invocation{Tenant: "acme"}, agent.ToolCall{Args: args})
					require.NoError(b, err)
					require.Nil(b, res.Failure)
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}
