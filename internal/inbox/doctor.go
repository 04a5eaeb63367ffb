package inbox

import (
	"context"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/llm/doctor"
)

// Doctor checks the models of an agent, or only that of a profile, with the provider and key that its turns use. It reports each check.
func (b *Inbox) Doctor(ctx context.Context, tenant, agentName, profile string, report func(gateway.DoctorCheck)) error {
	route, err := b.Catalog.Choose(ctx, agent.RouteContext{InvocationContext: agent.InvocationContext{Tenant: tenant}, Agent: agentName})
	if err != nil {
		return err
	}
	plan, _, err := b.Catalog.Resolve(ctx, tenant, route.Agent)
	if err != nil {
		return err
	}
	models := plan.Models
	if profile != "" || agentName == "" {
		m, err := plan.Model(profile)
		if err != nil {
			return err
		}
		models = []agent.PlanModel{m}
	}
	for _, m := range models {
		model, err := b.Models.Model(ctx, m)
		if err != nil {
			return err
		}
		_, err = doctor.Run(ctx, doctor.Config{
			Model: model, Profile: m, Layers: Layers,
		}, func(c doctor.Check) { report(doctorCheck(m.Profile, &c)) })
		if err != nil {
			return err
		}
	}
	return nil
}

func doctorCheck(profile string, c *doctor.Check) gateway.DoctorCheck {
	return gateway.DoctorCheck{
		Name: profile + ": " + c.Name, Rule: c.Rule, OK: c.OK, Detail: c.Detail, TookMS: float64(c.Took) / float64(time.Millisecond),
	}
}
