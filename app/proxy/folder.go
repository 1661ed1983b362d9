package proxy

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-go/weir/weirhttp"
)

// openFolder opens the folder of the cache, if s has one. The gateway closes it.
func (p *proxy) openFolder(s Settings) error {
	if s.Folder.Folder == "" {
		return nil
	}
	o := s.Folder
	o.Logger = p.logger
	err := s.Gateway.Cache.OpenFolder(o)
	switch {
	case errors.Is(err, weirhttp.ErrFolderInUse):
		return fmt.Errorf("cache.dir: %s is in use by another process; each proxy needs its own folder", o.Folder)
	case err != nil:
		return fmt.Errorf("cache.dir: %w", err)
	}
	if st := s.Gateway.Cache.Stats().Folder; st.Responses > 0 {
		p.logger.Info("the cache folder is open", "folder", o.Folder, "responses", st.Responses, "bytes", st.Bytes)
	}
	return nil
}

// closeFolder closes the folder of a cache that no gateway has taken over.
func (p *proxy) closeFolder(s Settings) {
	ctx, cancel := context.WithTimeout(context.Background(), cutGrace)
	defer cancel()
	_ = s.Gateway.Cache.Close(ctx) // its queue is empty
}
