package blob

import (
	"context"
	"errors"
	"io"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// Object is stored content in the bucket.
type Object struct {
	Tenant string
	Ref    string // cas://sha256:<hex>
	Bytes  int64  // compressed
}

// Objects reads a page of the bucket, at most limit objects, and returns those that are content of a tenant. It leaves out compiled plans,
// uploads and removals in progress, and anything else. token is nil for the first page, then next of the page before; next is nil after the
// last page.
func (s *Store) Objects(ctx context.Context, token []byte, limit int) (page []Object, next []byte, err error) {
	if len(token) == 0 {
		token = blob.FirstPageToken
	}
	var found []*blob.ListObject
	err = retryList(func() (err error) {
		found, next, err = s.bucket.ListPage(ctx, token, limit, nil)
		return err
	})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, bucketError(ctx, "list blob store", err)
	}
	for _, o := range found {
		tenant, digest, ok := parseKey(o.Key)
		if ok && tenant != plansFolder {
			page = append(page, Object{Tenant: tenant, Ref: scheme + digest, Bytes: o.Size})
		}
	}
	return page, next, nil
}

// maxLists bounds how often a list is repeated.
const maxLists = 10

// retryList makes a list, and repeats it if an object was removed meanwhile: a folder cannot be listed then.
func retryList(list func() error) (err error) {
	for range maxLists {
		if err = list(); err == nil || gcerrors.Code(err) != gcerrors.NotFound {
			return err
		}
	}
	return err
}

// deleteObjects deletes the objects of a prefix that are old, up to the last one that it has to look at, and returns how many.
func deleteObjects(ctx context.Context, bucket *blob.Bucket, prefix string, look func(*blob.ListObject) (isOld, isLast bool)) (n int, err error) {
	err = retryList(func() error {
		for list := bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
			object, err := list.Next(ctx)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			isOld, isLast := look(object)
			if isLast {
				return nil
			}
			if !isOld {
				continue
			}
			if err := bucket.Delete(ctx, object.Key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
				return err
			}
			n++
		}
	})
	return n, err
}

// parseKey returns the tenant and the digest of a key that objectKey made.
func parseKey(key string) (tenant, digest string, ok bool) {
	tenant, rest, _ := strings.Cut(key, "/")
	digits, ok := strings.CutPrefix(rest, "sha256/")
	digest = strings.Replace(digits, "/", "", 1)
	if _, err := ParseRef(scheme + digest); !ok || err != nil || checkTenant(tenant) != nil {
		return "", "", false
	}
	return tenant, digest, objectKey(tenant, digest) == key
}
