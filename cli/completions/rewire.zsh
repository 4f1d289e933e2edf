#compdef rewire
# zsh completion for rewire. The program prints what can follow at the cursor.
_rewire() {
  local line word doc
  local -a whole open whole_shown open_shown
  if [[ $PREFIX == \~* ]]; then
    _files
    return
  fi
  while IFS= read -r line; do
    word=${line%%$'\t'*}
    doc=${line#*$'\t'}
    [[ -n $doc ]] && doc="$word  -- $doc" || doc=$word
    if [[ $word == *[/=:,.\(] ]]; then
      open+=("$word")
      open_shown+=("$doc")
    else
      whole+=("$word")
      whole_shown+=("$doc")
    fi
  done < <(${(Q)words[1]} __complete zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
  local result=1
  (( $#whole )) && compadd -l -d whole_shown -a whole && result=0
  (( $#open )) && compadd -l -S '' -d open_shown -a open && result=0
  return result
}
if [[ ${funcstack[1]} == _rewire ]]; then _rewire "$@"; else compdef _rewire rewire; fi
