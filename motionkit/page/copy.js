// Buttons that copy a command.
(() => {
  'use strict';
  const copied = async (code) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      return true;
    } catch {
      // A page that was opened as a file may not use the clipboard everywhere; a selection can still be copied.
      getSelection().selectAllChildren(code);
      const done = document.execCommand('copy');
      if (done) getSelection().removeAllRanges();
      return done;
    }
  };
  for (const button of document.querySelectorAll('button.copy')) {
    button.hidden = false;
    button.addEventListener('click', async () => {
      button.textContent = (await copied(button.previousElementSibling)) ? 'copied' : 'press Ctrl+C';
      setTimeout(() => { button.textContent = 'copy'; }, 1500);
    });
  }
})();
