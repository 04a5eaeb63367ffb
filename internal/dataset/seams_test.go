package dataset

// WithRowBytes makes the bound of a row so small that a test reaches it.
func WithRowBytes(n int64) Option { return func(e *exporter) { e.bound = n } }
