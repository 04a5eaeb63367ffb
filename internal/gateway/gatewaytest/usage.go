package gatewaytest

import (
	"cmp"
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// Usage is a ledger all of whose rows answer every query, for requests that come one after the other. It implements [gateway.Usage].
type Usage struct {
	Rows    []agent.UsageRow
	MaxPage int // rows; 0: as many as are asked for
	Asked   []agent.UsageQuery
	Err     error // of every call, unless it is nil
}

// Usage implements [gateway.Usage].
func (l *Usage) Usage(_ context.Context, q agent.UsageQuery) (agent.UsagePage, error) {
	l.Asked = append(l.Asked, q)
	size := min(q.PageSize, cmp.Or(l.MaxPage, q.PageSize))
	rows, next, err := pageOf(l.Rows, agent.Page{Size: size, Token: q.PageToken})
	page := agent.UsagePage{Since: q.Since, Until: Epoch(), Group: q.Group, Rows: rows, Next: next}
	if q.PageToken == "" {
		page.Totals = &agent.UsageSums{}
		for i := range l.Rows {
			page.Totals.Calls += l.Rows[i].Calls
			page.Totals.CostUSD += l.Rows[i].CostUSD
		}
	}
	return page, cmp.Or(l.Err, err)
}
