# fish completion for rewire; the program itself says what can stand at the cursor.
function __rewire_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    if string match -q '~*' -- $current
        __fish_complete_path $current
        return
    end
    # A quote that is still open has no other end.
    set -l word (string unescape -- $current)
    test -n "$word"; or set word (string trim --left --chars '\'"' -- $current)
    command $words[1] __complete fish $words[2..] "$word" 2>/dev/null
end
complete -c rewire -f -a '(__rewire_complete)'
