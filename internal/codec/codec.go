package codec

import (
	"errors"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/agent"
)

// Config configures [New]. Without Keys and Objects payloads stay unchanged.
type Config struct {
	Keys    *Keyring // nil: nothing is encrypted, and encrypted payloads cannot be read
	Objects Objects  // nil: nothing is stored elsewhere, and stored payloads cannot be read
	// Threshold is the size from which a payload is stored; default 256 KiB. A payload above MaxBytes, default 32 MiB, is not stored.
	Threshold int
	MaxBytes  int64
	Now       func() time.Time // nil: time.Now
}

// Codec encodes and decodes payloads for clients, and for tools that show histories. Its methods may be called from any goroutine.
type Codec struct {
	keys      *Keyring
	data      converter.DataConverter
	driver    *driver // nil: none
	threshold int
}

// New returns a codec, or an error for an invalid configuration.
func New(cfg Config) (*Codec, error) {
	c := &Codec{keys: cfg.Keys, threshold: cfg.Threshold, data: converter.GetDefaultDataConverter()}
	if c.keys != nil {
		if c.keys.ciphers[c.keys.current] == nil {
			return nil, errors.New("codec: the keyring has no keys; want one from ParseKeys")
		}
		c.data = newDataConverter(c.data, c.keys, false)
	}
	if cfg.Objects == nil {
		return c, nil
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	if c.threshold == 0 {
		c.threshold = defaultThreshold
	}
	if c.threshold < 0 || cfg.MaxBytes < int64(c.threshold) {
		return nil, agent.Invalid("threshold", "want 1 byte or more, and at most max bytes (%d), got %d", cfg.MaxBytes, c.threshold)
	}
	c.driver = &driver{objects: cfg.Objects, maxBytes: cfg.MaxBytes, now: cfg.Now}
	if c.driver.now == nil {
		c.driver.now = time.Now
	}
	return c, nil
}

// Options returns o with the codec. Workers use the codec of their client.
func (c *Codec) Options(o client.Options) client.Options {
	o.DataConverter, o.FailureConverter, o.ExternalStorage = c.data, c.Failures(), c.Storage()
	return o
}

// Data returns the data converter, for replays and for payloads that the SDK does not decode itself, such as memos of schedules.
func (c *Codec) Data() converter.DataConverter { return c.data }

// Failures returns the failure converter. With keys it encrypts the messages and stack traces of errors.
func (c *Codec) Failures() converter.FailureConverter {
	return temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: c.data, EncodeCommonAttributes: c.keys != nil,
	})
}

// Storage returns the external storage, or the zero value if there is none.
func (c *Codec) Storage() converter.ExternalStorage {
	if c.driver == nil {
		return converter.ExternalStorage{}
	}
	return converter.ExternalStorage{
		Drivers: []converter.StorageDriver{c.driver}, DriverSelector: c.driver, PayloadSizeThreshold: c.threshold,
	}
}

// On reports whether the codec changes payloads.
func (c *Codec) On() bool { return c.keys != nil || c.driver != nil }
