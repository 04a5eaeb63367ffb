package catalog

import (
	"regexp"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// snapshotDate matches the suffix of a model name that names a dated or the latest snapshot of the model.
var snapshotDate = regexp.MustCompile(`-(\d{4}-\d{2}-\d{2}|\d{8}|latest)$`)

// undatedModel returns the name of a model without the date of its snapshot: gpt-4o for gpt-4o-2024-08-06.
func undatedModel(model string) string { return snapshotDate.ReplaceAllString(model, "") }

// priceNames returns the names of the profiles that may have the price of a model, the exact name first.
func priceNames(model string) []string { return slices.Compact([]string{model, undatedModel(model)}) }

// priceKey returns the key of a model's price in [Parts.prices]. Providers reached through langchaingo have the same prices.
func priceKey(provider, model string) string {
	return strings.TrimPrefix(provider, "langchain-") + " " + model
}

// needsPrice reports whether a profile takes the price of another profile. A profile with its own base URL may be another service.
func needsPrice(m *agent.ModelProfile) bool { return !m.Price.IsSet() && m.BaseURL == "" }

// findPrice returns a profile that is named after the model of m and has its price, nil if the tenant sees none or m needs none.
func (l *documentLookup) findPrice(m *agent.ModelProfile) *agent.ModelProfile {
	if !needsPrice(m) {
		return nil
	}
	for _, name := range priceNames(m.Model) {
		e := l.find(agent.KindModel, name).entry
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

// price returns the price of profile m: its own, else that of priced (from [documentLookup.findPrice]), else the shipped price of its model.
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
