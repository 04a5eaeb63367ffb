package catalog

import (
	"regexp"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// snapshotDate matches what providers put behind the name of a model for its state of one day, or for its newest.
var snapshotDate = regexp.MustCompile(`-(\d{4}-\d{2}-\d{2}|\d{8}|latest)$`)

// undatedModel returns the name of a model without the date of its snapshot: gpt-4o for gpt-4o-2024-08-06.
func undatedModel(model string) string { return snapshotDate.ReplaceAllString(model, "") }

// priceNames returns the names of the profiles that have the price of a model, the most exact first.
func priceNames(model string) []string { return slices.Compact([]string{model, undatedModel(model)}) }

// priceKey is the key of a model's price in [Parts.prices]. The clients of langchaingo reach the same services as ours.
func priceKey(provider, model string) string {
	return strings.TrimPrefix(provider, "langchain-") + " " + model
}

// needsPrice reports whether a profile without a price may take that of another. One with an address is of somebody else's service.
func needsPrice(m *agent.ModelProfile) bool { return !m.Price.IsSet() && m.BaseURL == "" }

// findPrice returns the profile that a tenant sees under the name of a model, if it has a price of that model; nil if there is none.
func (g *documentLookup) findPrice(m *agent.ModelProfile) *agent.ModelProfile {
	if !needsPrice(m) {
		return nil
	}
	for _, name := range priceNames(m.Model) {
		e := g.find(agent.KindModel, name).entry
		if e == nil {
			continue
		}
		p, _ := e.parsed.Value.(*agent.ModelProfile)
		if p.Price.IsSet() && p.BaseURL == "" && priceKey(p.Provider, undatedModel(p.Model)) == priceKey(m.Provider, undatedModel(m.Model)) {
			return p
		}
	}
	return nil
}

// price returns the price of a profile. It is the first of these: the profile's own, that of priced (from [gatherer.findPrice]), and the
// one that is shipped for its model.
func (p *Parts) price(m, priced *agent.ModelProfile) agent.ModelPrice {
	switch {
	case !needsPrice(m):
		return m.Price
	case priced != nil:
		return priced.Price
	}
	for _, name := range priceNames(m.Model) {
		if price, ok := p.prices[priceKey(m.Provider, name)]; ok {
			return price
		}
	}
	return agent.ModelPrice{}
}
