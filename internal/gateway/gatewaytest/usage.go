package gatewaytest

import (
	"cmp"
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// Usage is a [gateway.Usage] that reports the same rows for every query. It is not safe for concurrent use.
type Usage struct {
	Rows    []agent.UsageRow
	MaxPage int // the maximum number of rows in a page; 0: any
	Asked   []agent.UsageQuery
	Err     error // if not nil, the error of every call
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
