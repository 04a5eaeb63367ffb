package blob

import (
	"context"
	"errors"
	"io"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// Object is stored content as it lies in the bucket.
type Object struct {
	Tenant string
	Ref    string // cas://sha256:<hex>
	Bytes  int64  // compressed
}

// Objects returns a page of the bucket: of at most limit of its objects, those that are content of a tenant; compiled plans, uploads and
// removals under way and whatever else lies there are left out. token is nil for the first page, then next of the page before; next is nil
// behind the last page.
func (s *Store) Objects(ctx context.Context, token []byte, limit int) (page []Object, next []byte, err error) {
	if len(token) == 0 {
		token = blob.FirstPageToken
	}
	var found []*blob.ListObject
	err = again(func() (err error) {
		found, next, err = s.bucket.ListPage(ctx, token, limit, nil)
		return err
	})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, fail(ctx, "list blob store", err)
	}
	for _, o := range found {
		tenant, digest, ok := parseKey(o.Key)
		if ok && tenant != plansFolder {
			page = append(page, Object{Tenant: tenant, Ref: scheme + digest, Bytes: o.Size})
		}
	}
	return page, next, nil
}

// maxLists bounds how often a list is made anew.
const maxLists = 10

// again makes a list, anew when one of its objects was removed meanwhile: a folder cannot be listed then.
func again(list func() error) (err error) {
	for range maxLists {
		if err = list(); err == nil || gcerrors.Code(err) != gcerrors.NotFound {
			return err
		}
	}
	return err
}

// parseKey is the inverse of objectKey.
func parseKey(key string) (tenant, digest string, ok bool) {
	tenant, rest, _ := strings.Cut(key, "/")
	digits, ok := strings.CutPrefix(rest, "sha256/")
	digest = strings.Replace(digits, "/", "", 1)
	if _, err := ParseRef(scheme + digest); !ok || err != nil || checkTenant(tenant) != nil {
		return "", "", false
	}
	return tenant, digest, objectKey(tenant, digest) == key
}
