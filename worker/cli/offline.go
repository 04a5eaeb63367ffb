package cli

import (
	"context"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/devstack/offline"
)

// startOfflineModel starts the offline model, sets the settings to its URL, and logs a warning that no real model answers.
func (c *command) startOfflineModel(ctx context.Context, settings *app.Config) (*offline.Server, error) {
	logger, err := app.Logger(settings.Log, app.Secrets(settings, c.env)...)
	if err != nil {
		return nil, err
	}
	model, err := offline.Start(ctx, "127.0.0.1:0", offline.Config{})
	if err != nil {
		return nil, err
	}
	settings.LLM.BaseURL = model.BaseURL()
	logger.Warn("the offline model answers, which is a script: set OPENAI_API_KEY, ANTHROPIC_API_KEY or llm.provider for a real one",
		zap.String("base_url", settings.LLM.BaseURL))
	return model, nil
}
